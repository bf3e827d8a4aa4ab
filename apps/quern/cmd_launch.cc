// quern launch MODEL: asks a running server to serve a model, and waits until it does.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "endpoint.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct LaunchOptions {
  EndpointOptions endpoint;
  std::string model;
  std::string uid, type, engine, device, quantization, size, format, kv_cache_dtype, keep_alive, model_path;
  std::vector<std::string> adapters, env, labels, engine_options;
  int32_t replicas = 1, context = 0, priority = 0, request_limit = 0;
  bool pin = false, no_wait = false, json = false;
};

Result<Json> read_pairs(const std::vector<std::string>& pairs, const char* option) {
  Json json = Json::object();
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return invalid_argument(fmt::format("{} {}: must be NAME=VALUE", option, pair));
    }
    json[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return json;
}

// A path is told whole: the server has another working folder.
std::string absolute(const std::string& model) {
  std::error_code error;
  if (!std::filesystem::exists(model, error)) return model;
  return std::filesystem::absolute(model, error).lexically_normal().string();
}

Result<Json> launch_body(const LaunchOptions& options) {
  Json body = {{"model_name", absolute(options.model)}};
  const auto set = [&](const char* field, const std::string& text) {
    if (!text.empty()) body[field] = text;
  };
  set("uid", options.uid);
  set("model_type", options.type);
  set("engine", options.engine);
  set("device", options.device);
  set("quantization", options.quantization);
  set("size", options.size);
  set("format", options.format);
  set("kv_cache_dtype", options.kv_cache_dtype);
  set("keep_alive", options.keep_alive);
  if (!options.model_path.empty()) body["model_path"] = absolute(options.model_path);
  body["replicas"] = options.replicas;
  if (options.context > 0) body["context"] = options.context;
  if (options.priority != 0) body["priority"] = options.priority;
  if (options.request_limit > 0) body["request_limit"] = options.request_limit;
  if (options.pin) body["pinned"] = true;
  QUERN_ASSIGN(body["env"], read_pairs(options.env, "--env"));
  QUERN_ASSIGN(body["node_labels"], read_pairs(options.labels, "--label"));
  QUERN_ASSIGN(body["engine_options"], read_pairs(options.engine_options, "--engine-option"));
  QUERN_ASSIGN(const Json adapters, read_pairs(options.adapters, "--lora"));
  body["adapters"] = Json::array();
  for (const auto& item : adapters.items()) {
    body["adapters"].push_back({{"name", item.key()}, {"path", absolute(item.value().get<std::string>())}});
  }
  return body;
}

// One line on a terminal that is written over.
void show_launch(const Json& model) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::string stage = model.value("status", "");
  for (const Json& replica : model.value("replicas", Json::array())) stage = replica.value("state", stage);
  std::fprintf(stderr, "\r\033[K%s: %s %3.0f %%  %s", model.value("id", "").c_str(), stage.c_str(),
               100 * model.value("progress", 0.0), model.value("message", "").c_str());
}

void clear_progress() {
  if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
}

// A model that does not come up is stopped again: whoever waits for it does not want it later.
Result<Json> wait_until_ready(const LaunchOptions& options, const std::string& uid) {
  for (;;) {
    auto model = ask(options.endpoint, "GET", model_path(uid));
    if (!model) return std::unexpected(model.error());
    const std::string status = model->value("status", "");
    if (status == "READY") return std::move(*model);
    if (status == "ERROR") {
      const std::string message = model->value("message", "");
      QUERN_TRY(ask(options.endpoint, "DELETE", model_path(uid)));
      return make_error(ErrorCode::kUnavailable, fmt::format("{} did not come up: {}", uid, message));
    }
    show_launch(*model);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

Status launch(const LaunchOptions& options) {
  QUERN_ASSIGN(const Json body, launch_body(options));
  QUERN_ASSIGN(const Json answer, ask(options.endpoint, "POST", "/v1/models?wait_ready=false", body));
  const std::string uid = answer.value("model_uid", "");
  Json model = answer;
  if (!options.no_wait) {
    auto ready = wait_until_ready(options, uid);
    clear_progress();
    if (!ready) return std::unexpected(ready.error());
    model = std::move(*ready);
    model["model_uid"] = uid;
  }
  if (options.json) {
    print_json(model);
  } else {
    std::printf("%s\n", uid.c_str());
  }
  return {};
}

void add_choice_options(CLI::App& command, LaunchOptions& options) {
  command.add_option("--uid", options.uid, "the name clients use (default: made from the model's)");
  command.add_option("--type", options.type, "LLM, embedding, rerank … (default: as the catalogue says)");
  command.add_option("--engine", options.engine, "quern, vllm, sglang, llama.cpp or openai (default: quern)");
  command.add_option("--size", options.size, "billions of parameters: 0.5, 1_8");
  command.add_option("--format", options.format, "gguf, safetensors …");
  command.add_option("--quantization", options.quantization, "of the file wanted: q4_k_m, awq …");
  command.add_option("--model-path", options.model_path,
                     "a file or folder instead of the catalogue's; of engine openai the address");
  command.add_option("--lora", options.adapters, "NAME=PATH of an adapter; may be repeated");
  command.add_option("--context", options.context, "tokens of the longest sequence (default: the model's own)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--kv-cache-dtype", options.kv_cache_dtype, "of the engine's cache (default: the engine's)");
  command.add_option("--engine-option", options.engine_options,
                     "NAME=VALUE: max_num_seqs=64 becomes --max-num-seqs 64 of the engine; may be repeated");
  command.add_option("--env", options.env, "NAME=VALUE of the worker's environment; may be repeated");
}

void add_place_options(CLI::App& command, LaunchOptions& options) {
  command.add_option("--replicas", options.replicas, "copies, each a process of its own; 0: one, once it is asked for")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command.add_option("--device", options.device, "auto, cpu, cuda:0 … (default: auto)");
  command.add_option("--label", options.labels, "NAME=VALUE that a worker machine must carry; may be repeated");
  command.add_option("--keep-alive", options.keep_alive,
                     "unload after this long without a request: 300, 30s, 5m, 2h; -1: never (the default)");
  command.add_flag("--pin", options.pin, "never unloaded for idleness or for another model");
  command.add_option("--priority", options.priority, "the lower goes first when memory is short")
      ->capture_default_str();
  command.add_option("--request-limit", options.request_limit, "requests at once; one more is refused; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

}  // namespace

void add_launch(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand("launch", "let a running server serve a model; it comes back after a restart");
  command->add_option("MODEL", options->model, kModelHelp)->required();
  add_choice_options(*command, *options);
  add_place_options(*command, *options);
  command->add_flag("--no-wait", options->no_wait, "return before the model is ready");
  add_endpoint_options(*command, options->endpoint);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(launch(*options), *command, exit); });
}

}  // namespace quern::cli
