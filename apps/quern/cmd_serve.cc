// quern serve: loads models and answers HTTP until SIGINT or SIGTERM.
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "base/status.h"
#include "command.h"
#include "generation_options.h"
#include "model_arg.h"
#include "platform/home.h"
#include "serve_config.h"
#include "serve_fleet.h"
#include "serve_jobs.h"
#include "serve_models.h"
#include "serve_people.h"
#include "server/app.h"
#include "server/http/server.h"

namespace quern::cli {
namespace {

struct ServeOptions {
  ServeModelsOptions models;
  std::vector<std::string> more_models;  // --model
  std::string config_file;
  int32_t tensor_parallel_size = 1;
  std::string api_key_file;
  std::vector<std::string> cors_origins;
  std::string root_path;
  std::string store_path;
  bool lora_updates = false;
  std::string lora_folder;
  std::string otlp_endpoint;
  std::string worker_token;
  bool is_worker = false;  // of a fleet, which alone can reach its socket
  std::string metrics_prefix = "vllm:";
  std::string log_format = "text";
  std::string log_level = "info";
  ServePeopleOptions people;
  http::ServerOptions http;
  ServeFleetOptions fleet;
  ServeJobsOptions jobs;
};

Result<KeySet> read_keys(const ServeOptions& options) {
  KeySet keys;
  if (options.is_worker) return keys;
  if (const auto key = environment("QUERN_API_KEY")) {
    if (const Status status = keys.add(*key); !status) {
      return invalid_argument("QUERN_API_KEY: " + status.error().message);
    }
  }
  if (!options.api_key_file.empty()) QUERN_TRY(keys.add_file(options.api_key_file));
  return keys;
}

// Whoever has it may bring a machine that gets everybody's requests.
Result<KeySet> read_worker_tokens(const ServeOptions& options) {
  constexpr size_t kTokenMin = 16;
  KeySet tokens;
  const std::string token =
      options.worker_token.empty() ? environment("QUERN_WORKER_TOKEN").value_or("") : options.worker_token;
  if (token.empty()) return tokens;
  if (token.size() < kTokenMin) {
    return invalid_argument(fmt::format("--worker-token: {} characters, {} are the least", token.size(), kTokenMin));
  }
  QUERN_TRY(tokens.add(token));
  return tokens;
}

// Only programs of this machine can ask, and nobody was told by a key who may.
bool is_private(const http::ServerOptions& http, const KeySet& keys) {
  return keys.empty() && is_local(http);
}

Result<AdapterRules> adapter_rules(const ServeOptions& options, const KeySet& keys) {
  AdapterRules rules{.updates_allowed = options.lora_updates || is_private(options.http, keys), .folder = {}};
  if (options.lora_folder.empty()) return rules;
  std::error_code error;
  rules.folder = std::filesystem::canonical(options.lora_folder, error);
  if (error || !std::filesystem::is_directory(rules.folder)) {
    return invalid_argument(fmt::format("--lora-dir {}: is no folder", options.lora_folder));
  }
  return rules;
}

Result<AppOptions> app_options(const ServeOptions& options) {
  AppOptions app;
  QUERN_ASSIGN(app.keys, read_keys(options));
  if (!options.is_worker) {
    QUERN_ASSIGN(app.worker_tokens, read_worker_tokens(options));
  }
  QUERN_ASSIGN(app.adapters, adapter_rules(options, app.keys));
  QUERN_ASSIGN(app.tracing, read_tracing_settings(options.otlp_endpoint, environment));
  QUERN_TRY(open_people(options.people, options.http, app));
  // Whoever holds a key may launch (what each may, his scopes say), or whoever is on this machine where there are none.
  app.management_allowed = app.people != nullptr || !app.keys.empty() || is_private(options.http, app.keys);
  app.cors_origins = options.cors_origins;
  app.store_path = options.store_path.empty() ? (quern_home() / "server.db").string() : options.store_path;
  app.runs_jobs = !options.is_worker;
  QUERN_TRY(set_jobs_options(options.jobs, options.store_path, app));
  app.root_path = options.root_path;
  while (app.root_path.ends_with('/')) app.root_path.pop_back();
  if (!app.root_path.empty() && app.root_path.front() != '/') {
    return invalid_argument(fmt::format("--root-path {}: must begin with /", options.root_path));
  }
  return app;
}

// SIGINT and SIGTERM go to one thread: the first drains, the second ends at once.
void watch_signals(const sigset_t& signals, const std::shared_ptr<http::Server>& server, const Log& log,
                   const App& app) {
  std::thread([signals, server, &log, &app] {
    int received = 0;
    sigwait(&signals, &received);
    if (!app.is_ready()) std::_Exit(0);
    log.write(LogLevel::kInfo, "stopping");
    server->stop();
    sigwait(&signals, &received);
    std::_Exit(0);
  }).detach();
}

Status check_parallel(const ServeOptions& options) {
  if (options.tensor_parallel_size == 1) return {};
  if (options.tensor_parallel_size < 1) {
    return invalid_argument(fmt::format("--tensor-parallel-size: {} is less than 1", options.tensor_parallel_size));
  }
  return unsupported(fmt::format(
      "--tensor-parallel-size: {} needs as many devices, this build computes on one: only 1 can be honoured",
      options.tensor_parallel_size));
}

Status serve(ServeOptions options) {
  // Blocked before any thread starts, so that all inherit it and sigwait() gets the signal.
  static sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto& names = options.models.models;
  names.insert(names.end(), options.more_models.begin(), options.more_models.end());
  QUERN_TRY(check_parallel(options));
  if (options.is_worker && options.http.unix_socket.empty()) return invalid_argument("--worker: only with --uds");
  const LogLevel level = options.log_level == "debug"     ? LogLevel::kDebug
                         : options.log_level == "info"    ? LogLevel::kInfo
                         : options.log_level == "warning" ? LogLevel::kWarning
                                                          : LogLevel::kError;
  // Static: the signal thread may outlive this function.
  static Log log(options.log_format == "json" ? LogFormat::kJson : LogFormat::kText, level);
  const bool with_fleet = wants_fleet(options.fleet, !names.empty());
  if (!with_fleet || !names.empty()) QUERN_TRY(check_models(options.models));
  QUERN_ASSIGN(AppOptions app_settings, app_options(options));
  static std::unique_ptr<Fleet> fleet;
  if (with_fleet) fleet = open_fleet(options.fleet, log);
  app_settings.fleet = fleet.get();
  app_settings.load_timeout = options.fleet.load_timeout;
  const std::shared_ptr<people::People> people = app_settings.people;
  const std::string root_path = app_settings.root_path;
  static Metrics metrics(options.metrics_prefix);
  static ModelTable models;
  QUERN_ASSIGN(auto created, App::create(models, metrics, log, std::move(app_settings)));
  static std::unique_ptr<App> app = std::move(created);
  QUERN_ASSIGN(auto started, http::Server::start(options.http, app->handler()));
  const std::shared_ptr<http::Server> server = std::move(started);
  watch_signals(signals, server, log, *app);
  Status loaded = tell_setup_link(people.get(), server->address(), root_path, log);
  if (loaded && !names.empty()) loaded = load_models(options.models, metrics, log, models);
  if (!loaded) {
    server->stop();
    server->join();
    return loaded;
  }
  app->set_ready();
  static std::unique_ptr<xxljob::Executor> executor;
  auto executing = start_xxl_executor(options.jobs, *app, fleet.get(), log);
  if (!executing) {
    server->stop();
    server->join();
    app->stop();
    return std::unexpected(executing.error());
  }
  executor = std::move(*executing);
  log.write(LogLevel::kNotice, fmt::format("listening on {}", server->address()));
  server->join();
  executor.reset();
  app->stop();
  return {};
}

void add_model_options(CLI::App& command, ServeOptions& options) {
  EngineOptions& engine = options.models.engine;
  command.add_option("MODEL", options.models.models, kModelHelp);
  command.add_option("--model", options.more_models, "one more MODEL");
  command.add_option("--config", options.config_file, "YAML file of settings; what the command line says wins over it");
  command.add_option("--served-model-name", options.models.served_name,
                     "the id clients use (default: the model's own name)");
  command.add_option("--task", options.models.tasks,
                     "TASK or MODEL=TASK, MODEL as typed or its id: auto, generate, embed, classify or rerank; auto "
                     "goes by the model's files");
  command
      .add_option("--tool-call-parser", options.models.tool_call_parser,
                  "how the model writes tool calls: auto (from its chat template), none, hermes, llama3_json, mistral, "
                  "deepseek_v3, openai, pythonic, json")
      ->capture_default_str();
  command
      .add_option("--reasoning-parser", options.models.reasoning_parser,
                  "how it marks its reasoning: auto, none, think, deepseek_r1, qwen3, mistral, openai")
      ->capture_default_str();
  engine.max_num_seqs = 64;
  add_engine_options(command, engine);
  add_scheduling_options(command, engine);
  command.add_option("--tensor-parallel-size", options.tensor_parallel_size, "devices to split a model over; only 1")
      ->capture_default_str();
  add_speculation_options(command, engine);
  add_adapter_options(command, engine);
  command.add_flag(
      "--allow-runtime-lora-updating", options.lora_updates,
      "clients may load and unload adapters; without it only on a loopback address or unix socket without API keys");
  command.add_option("--lora-dir", options.lora_folder,
                     "clients load adapters from below this folder only; relative paths start there");
}

void add_http_options(CLI::App& command, ServeOptions& options) {
  http::ServerOptions& http = options.http;
  command.add_option("--host", http.host, "address to listen on")->capture_default_str();
  command.add_option("--port", http.port, "port; 0 takes a free one")->capture_default_str();
  command.add_option("--uds", http.unix_socket, "listen on this unix socket instead");
  command.add_flag("--worker", options.is_worker,
                   "serve as a part of another quern: no keys and no store of its own; only with --uds");
  command.add_option("--ssl-certfile", http.ssl_certfile, "certificate chain in PEM: serve TLS");
  command.add_option("--ssl-keyfile", http.ssl_keyfile, "its private key in PEM");
  command.add_option("--root-path", options.root_path, "also answer below this prefix, as behind a proxy");
  command.add_option("--cors", options.cors_origins, "origin of web pages that may call, or * for any");
  command.add_option("--api-key-file", options.api_key_file,
                     "file of API keys, one a line, plain or sha256:HEX; QUERN_API_KEY adds one");
  command.add_option("--worker-token", options.worker_token,
                     "what machines need to join by `quern worker --join`, 16 characters or more, or sha256:HEX; also "
                     "QUERN_WORKER_TOKEN, which no list of processes shows");
  command.add_option("--http-threads", http.threads, "threads for connections")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--max-connections", http.connections_max, "connections that may be open")->capture_default_str();
  command.add_option("--max-body-bytes", http.body_bytes_max, "longest request body; over it: 413")
      ->capture_default_str();
  command.add_option("--max-header-bytes", http.header_bytes_max, "longest request header; over it: 431")
      ->check(CLI::Range(size_t{256}, http::kHeaderBytesLimit))
      ->capture_default_str();
  const auto seconds = [&](const char* name, std::chrono::seconds& target, const char* help) {
    command
        .add_option_function<int64_t>(
            name, [&target](const int64_t& value) { target = std::chrono::seconds(value); }, help)
        ->check(CLI::Range(int64_t{0}, int64_t{86400}))
        ->default_str(std::to_string(target.count()));
  };
  seconds("--idle-timeout", http.idle_timeout, "seconds a connection may wait between requests");
  seconds("--read-timeout", http.read_timeout, "seconds a request may take to arrive");
  seconds("--write-timeout", http.write_timeout, "seconds a client may take nothing of its reply");
  seconds("--drain-timeout", http.drain_timeout, "seconds running answers may take after SIGTERM");
  command.add_option(
      "--store", options.store_path,
      "database of responses, files and batches (default: server.db in QUERN_HOME); :memory: keeps nothing");
  command.add_option("--metrics-prefix", options.metrics_prefix, "prefix of the names in /metrics")
      ->capture_default_str();
  command.add_option("--otlp-traces-endpoint", options.otlp_endpoint,
                     "URL of a collector (OTLP over HTTP) that gets a span of each request, …/v1/traces; also "
                     "OTEL_EXPORTER_OTLP_ENDPOINT and its like");
  command.add_option("--log-format", options.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_option("--log-level", options.log_level, "error, warning, info (one line a request) or debug")
      ->check(CLI::IsMember({"error", "warning", "info", "debug"}))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "serve models over HTTP");
  add_model_options(*command, *options);
  add_http_options(*command, *options);
  add_fleet_options(*command, options->fleet);
  add_jobs_options(*command, options->jobs);
  add_people_options(*command, options->people);
  command->callback([options, command, &exit] {
    Status status;
    if (!options->config_file.empty()) {
      status = apply_config(options->config_file, *command,
                            {.models = options->models.models,
                             .models_given = !options->models.models.empty() || !options->more_models.empty(),
                             .engine = options->models.engine});
    }
    if (status) status = serve(*options);
    finish(status, *command, exit);
  });
}

}  // namespace quern::cli
