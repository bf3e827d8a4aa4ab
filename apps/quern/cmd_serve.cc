// quern serve: loads models and answers HTTP until SIGINT or SIGTERM.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include "base/status.h"
#include "command.h"
#include "model_arg.h"
#include "platform/home.h"
#include "server/app.h"
#include "server/http/server.h"

namespace quern::cli {
namespace {

struct ServeOptions {
  std::vector<std::string> models;
  std::vector<std::string> more_models;  // --model
  std::string served_name;
  std::string api_key_file;
  http::ServerOptions http;
  EngineOptions engine;
};

// One key a line; blank lines and lines that begin with # do not count.
Result<std::vector<std::string>> read_keys(const ServeOptions& options) {
  std::vector<std::string> keys;
  if (const auto key = environment("QUERN_API_KEY")) keys.push_back(*key);
  if (options.api_key_file.empty()) return keys;
  std::ifstream file(options.api_key_file);
  if (!file) return invalid_argument(fmt::format("--api-key-file {}: cannot read", options.api_key_file));
  std::string line;
  while (std::getline(file, line)) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') keys.push_back(line);
  }
  if (keys.empty()) return invalid_argument(fmt::format("--api-key-file {}: has no key", options.api_key_file));
  return keys;
}

// The id of a path is its base name without .gguf; of anything else, what the user wrote.
std::string served_id(const std::string& model, const TextModel& text) {
  const bool is_path = model.find('/') != std::string::npos || model.ends_with(".gguf");
  return is_path && model.find(':') == std::string::npos ? text.id() : model;
}

Result<ServedModel> load(const std::string& model, const ServeOptions& options) {
  QUERN_ASSIGN(const std::filesystem::path path, resolve_model(model));
  ServedModel served;
  served.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  QUERN_ASSIGN(served.text, TextModel::open(path));
  served.id = options.served_name.empty() ? served_id(model, *served.text) : options.served_name;
  EngineOptions engine = options.engine;
  engine.model_path = path;
  QUERN_ASSIGN(served.engine, Engine::create(engine));
  std::fprintf(stderr, "quern: loaded %s (context %d)\n", served.id.c_str(), served.engine->max_model_len());
  return served;
}

Status serve(const ServeOptions& options) {
  // Blocked before any thread starts, so that all inherit it and sigwait() below gets the signal.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  std::vector<std::string> names = options.models;
  names.insert(names.end(), options.more_models.begin(), options.more_models.end());
  if (names.empty()) return invalid_argument("serve: name at least one MODEL");
  if (names.size() > 1 && !options.served_name.empty()) {
    return invalid_argument("--served-model-name: only with one MODEL");
  }
  QUERN_ASSIGN(std::vector<std::string> keys, read_keys(options));
  ModelTable models;
  for (const std::string& name : names) {
    QUERN_ASSIGN(ServedModel model, load(name, options));
    if (models.find(model.id)) return invalid_argument(fmt::format("{}: named twice", model.id));
    models.add(std::move(model));
  }
  QUERN_ASSIGN(const auto server, http::Server::start(options.http, make_app(models, {.api_keys = std::move(keys)})));
  std::fprintf(stderr, "quern: listening on http://%s:%d\n", options.http.host.c_str(), server->port());
  int received = 0;
  sigwait(&signals, &received);
  std::fprintf(stderr, "quern: stopping\n");
  server->stop();
  server->join();
  return {};
}

}  // namespace

void add_serve(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "serve models over HTTP");
  command->add_option("MODEL", options->models, kModelHelp);
  command->add_option("--model", options->more_models, "one more MODEL");
  command->add_option("--served-model-name", options->served_name,
                      "the id clients use (default: the model's own name)");
  command->add_option("--host", options->http.host, "address to listen on")->capture_default_str();
  command->add_option("--port", options->http.port, "port; 0 takes a free one")->capture_default_str();
  command->add_option("--api-key-file", options->api_key_file, "file of API keys, one a line; QUERN_API_KEY adds one");
  command->add_option("-t,--threads", options->engine.num_threads, "0: the cores this process may use")
      ->capture_default_str();
  command->add_option("--precision", options->engine.precision, "fast or exact")->capture_default_str();
  command->add_option("--kv-cache-dtype", options->engine.kv_cache_dtype, "auto, f32, f16, bf16 or q8_0")
      ->capture_default_str();
  command->add_option("--max-model-len", options->engine.max_model_len, "longest context of a request; 0: the model's")
      ->capture_default_str();
  command->add_option("--max-num-batched-tokens", options->engine.max_num_batched_tokens, "token budget of a step")
      ->capture_default_str();
  command->add_option("--max-num-seqs", options->engine.max_num_seqs, "sequences that run at once")
      ->capture_default_str();
  command->callback([options, &exit] { finish(serve(*options), exit); });
}

}  // namespace quern::cli
