#include "platform/fleet/worker_kind.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/status.h"
#include "hardware/inventory/placement.h"
#include "platform/catalog/engines.h"
#include "platform/fleet/device_wish.h"
#include "platform/home.h"
#include "platform/model_name.h"

extern "C" char** environ;  // POSIX: the environment of this process

namespace quern {
namespace {

const std::array<WorkerKind, 5>& kinds() {
  static const std::array<WorkerKind, 5> table = {{
      {.engine = "quern",
       .address = WorkerAddress::kUnixSocket,
       .health_path = "/health",
       .formats = {"gguf", "safetensors"},
       .types = {"LLM", "embedding", "rerank"}},
      {.engine = "vllm",
       .health_path = "/health",
       .formats = {"safetensors", "gguf"},
       .types = {"LLM", "embedding", "rerank"}},
      {.engine = "sglang", .health_path = "/health", .formats = {"safetensors", "gguf"}, .types = {"LLM", "embedding"}},
      {.engine = "llama.cpp", .health_path = "/health", .formats = {"gguf"}, .types = {"LLM", "embedding", "rerank"}},
      {.engine = "openai",
       .address = WorkerAddress::kUrl,
       .health_path = "/v1/models",
       .types = {"LLM", "embedding", "rerank", "image", "audio"},
       .reserves_memory = false},
  }};
  return table;
}

// What the platform sets itself, or what would make a worker serve others than the platform.
constexpr auto kReserved = std::to_array<std::string_view>(
    {"host",         "port",         "uds",         "model",          "served_model_name", "alias",        "api_key",
     "api_key_file", "ssl_certfile", "ssl_keyfile", "ssl_key_file",   "ssl_cert_file",     "root_path",    "api_prefix",
     "path",         "worker",       "config",      "store",          "model_path",        "lora_modules", "lora_paths",
     "lora",         "task",         "cors",        "allowed_origins"});

// A test holds the list against the command's help.
constexpr auto kQuernOptions = std::to_array<std::string_view>({"threads",
                                                                "precision",
                                                                "quantization",
                                                                "max_num_batched_tokens",
                                                                "kv_cache_dtype",
                                                                "kv_cache_dtype_v",
                                                                "kv_cache_memory",
                                                                "gpu_memory_utilization",
                                                                "kv_disk",
                                                                "kv_disk_size",
                                                                "max_model_len",
                                                                "max_num_seqs",
                                                                "scheduling_policy",
                                                                "long_prefill_token_threshold",
                                                                "max_num_partial_prefills",
                                                                "decode_pace",
                                                                "max_waiting",
                                                                "speculative_method",
                                                                "speculative_model",
                                                                "num_speculative_tokens",
                                                                "max_loras",
                                                                "tool_call_parser",
                                                                "reasoning_parser",
                                                                "tensor_parallel_size",
                                                                "http_threads",
                                                                "max_body_bytes",
                                                                "log_level",
                                                                "lora_dir",
                                                                "allow_runtime_lora_updating",
                                                                "drain_timeout"});

// Variables that would change what the platform relies on, or whose code a program runs before its own.
bool is_reserved_variable(std::string_view name) {
  constexpr std::array names = {
      "QUERN_FLEET_REPLICA", "QUERN_HOME", "QUERN_API_KEY",   "VLLM_API_KEY", "LLAMA_API_KEY",
      "LD_PRELOAD",          "LD_AUDIT",   "LD_LIBRARY_PATH", "PATH",         "PYTHONSTARTUP"};
  return std::ranges::find(names, name) != names.end();
}

constexpr int64_t kSlotsMax = 1024;  // of a llama-server

Status check_device(const LaunchSpec& spec) {
  const std::string& device = spec.device;
  if (device == "auto" || device == "cpu" || spec.engine == "openai") return {};
  if (spec.engine == "quern") {
    if (device == "reference") return {};
    return unsupported(fmt::format("device: {}: engine quern computes on the processor (auto, cpu)", device));
  }
  const auto kinds = engine_device_kinds(spec.engine);
  const auto name = parse_device_name(device.substr(0, device.find(',')));
  const bool runs = name && std::ranges::find(kinds, name->kind) != kinds.end();
  if (device_ids(device).empty() || !runs || visibility_of(device_ids(device)).first.empty()) {
    return invalid_argument(fmt::format("device: {}: must be auto, cpu or cuda:0", device));
  }
  return {};
}

Status check_options(const LaunchSpec& spec) {
  for (const auto& [name, value] : spec.engine_options) {
    if (std::ranges::find(kReserved, std::string_view(name)) != kReserved.end()) {
      return invalid_argument(fmt::format("engine_options.{}: is set by the platform", name));
    }
    const bool known = std::ranges::find(kQuernOptions, std::string_view(name)) != kQuernOptions.end();
    if (spec.engine == "quern" && !known) {
      return invalid_argument(fmt::format("{}: engine quern has no such option", name));
    }
    if (spec.engine == "openai") {
      return invalid_argument(fmt::format("{}: engine openai takes no options, its server is not ours", name));
    }
  }
  for (const auto& [name, value] : spec.env) {
    if (is_reserved_variable(name)) return invalid_argument(fmt::format("env.{}: is not for a model to set", name));
  }
  return {};
}

Status check_url_spec(const LaunchSpec& spec) {
  if (spec.model_path.empty()) {
    return invalid_argument("model_path: engine openai needs the URL of a server (https://host/v1)");
  }
  const bool http = spec.model_path.starts_with("http://") || spec.model_path.starts_with("https://");
  if (!http || spec.model_path.find_first_of("?#@ ") != std::string::npos) {
    return invalid_argument(fmt::format("model_path: {} is no http or https URL", spec.model_path));
  }
  if (spec.model_name.empty()) return invalid_argument("model_name: what the server calls the model is missing");
  if (!spec.adapters.empty()) return unsupported("adapters: engine openai loads none");
  if (spec.context > 0) return unsupported("context: is the server's own with engine openai");
  if (!spec.kv_cache_dtype.empty()) return unsupported("kv_cache_dtype: is the server's own with engine openai");
  return {};
}

// max_num_seqs: 64 becomes --max-num-seqs 64, enforce_eager: true becomes --enforce-eager; a flag that is off is left
// out, and one that is on by default is said to be off as its engine says it.
void add_options(const LaunchSpec& spec, std::vector<std::string>& argv) {
  for (const auto& [name, value] : spec.engine_options) {
    std::string option = name;
    std::ranges::replace(option, '_', '-');
    if (value == "true") {
      argv.push_back("--" + option);
    } else if (value == "false") {
      if (spec.engine == "vllm") argv.push_back("--no-" + option);
    } else {
      argv.push_back("--" + option);
      argv.push_back(value);
    }
  }
}

// SGLang's names have no colon: behind one it looks for an adapter.
std::string sglang_name(std::string name) {
  std::ranges::replace(name, ':', '-');
  return name;
}

std::string name_of(const LaunchSpec& spec, const WorkerPlace& place) {
  const std::string& name = place.served_name.empty() ? spec.uid : place.served_name;
  return spec.engine == "sglang" ? sglang_name(name) : name;
}

// llama-server's slots keep the adapters of their last request: each request names the scale of all. `chosen` past the
// end: none.
std::string scales_of_llama(size_t num_adapters, size_t chosen) {
  std::string list;
  for (size_t i = 0; i < num_adapters; ++i) {
    list += fmt::format(R"({}{{"id":{},"scale":{}}})", i > 0 ? "," : "", i, i == chosen ? 1 : 0);
  }
  return fmt::format(R"("lora":[{}])", list);
}

// llama-server divides its context among a number of slots that is given, unless they share it.
int64_t context_of_llama(const LaunchSpec& spec) {
  int64_t slots = 1;
  bool is_shared = false;
  for (const auto& [name, value] : spec.engine_options) {
    if (name == "parallel" || name == "np") std::from_chars(value.data(), value.data() + value.size(), slots);
    if (name == "kv_unified") is_shared = value == "true";
  }
  const bool is_divided = !is_shared && slots > 1 && slots <= kSlotsMax;
  return is_divided ? spec.context * slots : spec.context;
}

std::vector<std::string> quern_argv(const LaunchSpec& spec, const WorkerPlace& place) {
  std::vector<std::string> argv = {
      place.program,       "serve", place.model, "--worker", "--uds", place.socket.string(), "--served-model-name",
      name_of(spec, place)};
  const auto add = [&](const char* option, std::string value) { argv.insert(argv.end(), {option, std::move(value)}); };
  if (!place.task.empty()) add("--task", place.task);
  if (place.device != "auto") add("--device", place.device);
  if (spec.context > 0) add("--max-model-len", std::to_string(spec.context));
  if (!spec.kv_cache_dtype.empty()) add("--kv-cache-dtype", spec.kv_cache_dtype);
  for (const LaunchAdapter& adapter : spec.adapters) add("--lora-modules", adapter.name + "=" + adapter.path);
  return argv;
}

std::vector<std::string> vllm_argv(const LaunchSpec& spec, const WorkerPlace& place) {
  std::vector<std::string> argv = {place.program,
                                   "serve",
                                   place.model,
                                   "--host",
                                   "127.0.0.1",
                                   "--port",
                                   std::to_string(place.port),
                                   "--served-model-name",
                                   name_of(spec, place)};
  const auto add = [&](const char* option, std::string value) { argv.insert(argv.end(), {option, std::move(value)}); };
  if (spec.context > 0) add("--max-model-len", std::to_string(spec.context));
  if (!spec.kv_cache_dtype.empty()) add("--kv-cache-dtype", spec.kv_cache_dtype);
  if (!spec.adapters.empty()) argv.insert(argv.end(), {"--enable-lora", "--lora-modules"});
  for (const LaunchAdapter& adapter : spec.adapters) argv.push_back(adapter.name + "=" + adapter.path);
  return argv;
}

std::vector<std::string> sglang_argv(const LaunchSpec& spec, const WorkerPlace& place) {
  std::vector<std::string> argv = {place.program,
                                   "serve",
                                   "--model-path",
                                   place.model,
                                   "--host",
                                   "127.0.0.1",
                                   "--port",
                                   std::to_string(place.port),
                                   "--served-model-name",
                                   name_of(spec, place),
                                   "--api-key",
                                   place.api_key};
  const auto add = [&](const char* option, std::string value) { argv.insert(argv.end(), {option, std::move(value)}); };
  if (spec.context > 0) add("--context-length", std::to_string(spec.context));
  if (!spec.kv_cache_dtype.empty()) add("--kv-cache-dtype", spec.kv_cache_dtype);
  if (spec.model_type == "embedding") argv.push_back("--is-embedding");
  if (place.device == "cpu") add("--device", "cpu");
  if (!spec.adapters.empty()) argv.push_back("--lora-paths");
  for (const LaunchAdapter& adapter : spec.adapters) argv.push_back(adapter.name + "=" + adapter.path);
  return argv;
}

std::vector<std::string> llama_argv(const LaunchSpec& spec, const WorkerPlace& place) {
  std::vector<std::string> argv = {
      place.program,       "-m", place.model, "--host", "127.0.0.1", "--port", std::to_string(place.port), "--alias",
      name_of(spec, place)};
  const auto add = [&](const char* option, std::string value) { argv.insert(argv.end(), {option, std::move(value)}); };
  if (spec.context > 0) add("--ctx-size", std::to_string(context_of_llama(spec)));
  if (!spec.kv_cache_dtype.empty()) {
    add("--cache-type-k", spec.kv_cache_dtype);
    add("--cache-type-v", spec.kv_cache_dtype);
  }
  if (place.device == "cpu") add("--n-gpu-layers", "0");
  if (spec.model_type == "embedding") argv.push_back("--embeddings");
  if (spec.model_type == "rerank") argv.push_back("--reranking");
  for (const LaunchAdapter& adapter : spec.adapters) add("--lora", adapter.path);
  // It knows no names: each request says which it wants, and one that says nothing gets the model itself.
  if (!spec.adapters.empty()) argv.emplace_back("--lora-init-without-apply");
  return argv;
}

// Our own environment less what is the front door's alone, then what the engine and the launch say.
std::vector<std::string> environment_of(const LaunchSpec& spec, const WorkerPlace& place) {
  std::map<std::string, std::string> values;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view pair = *each;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    values[std::string(pair.substr(0, equals))] = pair.substr(equals + 1);
  }
  for (const char* name : {"QUERN_API_KEY", "QUERN_WORKER_TOKEN", "VLLM_API_KEY", "LLAMA_API_KEY"}) values.erase(name);
  if (spec.engine == "vllm") values["VLLM_API_KEY"] = place.api_key;
  if (spec.engine == "llama.cpp") values["LLAMA_API_KEY"] = place.api_key;
  if (const auto visible = visibility_of(device_ids(place.device)); !visible.first.empty()) {
    values[visible.first] = visible.second;
    // Numbers are the tools': by address, not by speed.
    if (place.device.starts_with("cuda:")) values["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  }
  if (place.device == "cpu" && spec.engine != "quern") values["CUDA_VISIBLE_DEVICES"] = "";
  // Else each question whether it is well makes it write a token, and waits behind a long prompt.
  if (spec.engine == "sglang") values["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] = "false";
  for (const auto& [name, value] : spec.env) values[name] = value;
  values[kReplicaVariable] = place.mark;
  std::vector<std::string> environment;
  for (const auto& [name, value] : values) environment.push_back(name + "=" + value);
  return environment;
}

// "https://host/api/v1" is https://host and /api: routes bring their own /v1.
WorkerCommand url_command(const LaunchSpec& spec) {
  WorkerCommand command;
  const size_t host = spec.model_path.find("://") + 3;
  const size_t path = std::min(spec.model_path.find('/', host), spec.model_path.size());
  command.address = spec.model_path.substr(0, path);
  command.base_path = spec.model_path.substr(path);
  while (command.base_path.ends_with('/')) command.base_path.pop_back();
  if (command.base_path.ends_with("/v1")) command.base_path.resize(command.base_path.size() - 3);
  command.model = spec.model_name;
  const auto own = spec.env.find("OPENAI_API_KEY");
  command.api_key = own != spec.env.end() ? own->second : environment("OPENAI_API_KEY").value_or("");
  return command;
}

}  // namespace

std::span<const std::string_view> quern_engine_options() {
  return kQuernOptions;
}

const WorkerKind* find_worker_kind(std::string_view engine) {
  const auto it = std::ranges::find(kinds(), engine, &WorkerKind::engine);
  return it == kinds().end() ? nullptr : &*it;
}

Status check_worker_spec(const LaunchSpec& spec) {
  const WorkerKind* kind = find_worker_kind(spec.engine);
  if (kind == nullptr) return invalid_argument(fmt::format("engine: '{}' is unknown", spec.engine));
  const auto has = [](const std::vector<std::string_view>& list, const std::string& word) {
    return list.empty() || word.empty() || std::ranges::find(list, std::string_view(word)) != list.end();
  };
  if (!has(kind->types, spec.model_type)) {
    return unsupported(fmt::format("model_type: engine {} serves no {} models", spec.engine, spec.model_type));
  }
  if (!has(kind->formats, spec.format)) {
    return unsupported(fmt::format("format: engine {} does not read {}", spec.engine, spec.format));
  }
  QUERN_TRY(check_device(spec));
  QUERN_TRY(check_options(spec));
  if (kind->address == WorkerAddress::kUrl) return check_url_spec(spec);
  for (const LaunchAdapter& adapter : spec.adapters) {
    if (spec.engine != "llama.cpp" || adapter.path.find(',') == std::string::npos) continue;
    return unsupported(fmt::format("adapters: {}: engine llama.cpp takes no path with a comma", adapter.path));
  }
  return {};
}

Status check_worker_here(const LaunchSpec& spec) {
  for (const auto& [name, value] : spec.node_labels) {
    const bool here =
        (name == "address" && (value == "127.0.0.1" || value == "localhost")) || (name == "name" && value == "local");
    if (!here) return unsupported(fmt::format("node_labels.{}: no machine carries {}", name, value));
  }
  if (spec.engine == "quern" || spec.engine == "openai") return {};
  const bool wants_gpu = spec.device.starts_with("cuda:") && spec.engine != "llama.cpp";
  if (wants_gpu && !std::filesystem::exists("/dev/nvidiactl")) {
    return unsupported(fmt::format("device: {}: this machine has no such device", spec.device));
  }
  if (const auto program = find_engine_program(spec.engine); !program) {
    return unsupported(fmt::format("engine: {}: {}", spec.engine, program.error().message));
  }
  return {};
}

WorkerCommand worker_command(const LaunchSpec& spec, const WorkerPlace& place) {
  const WorkerKind* kind = find_worker_kind(spec.engine);
  WorkerCommand command;
  if (kind->address == WorkerAddress::kUrl) {
    command = url_command(spec);
  } else {
    command.argv = spec.engine == "quern"    ? quern_argv(spec, place)
                   : spec.engine == "vllm"   ? vllm_argv(spec, place)
                   : spec.engine == "sglang" ? sglang_argv(spec, place)
                                             : llama_argv(spec, place);
    add_options(spec, command.argv);
    command.environment = environment_of(spec, place);
    const bool socket = kind->address == WorkerAddress::kUnixSocket;
    command.address = socket ? "unix:" + place.socket.string() : fmt::format("http://127.0.0.1:{}", place.port);
    command.api_key = socket ? "" : place.api_key;
    command.model = place.served_name;
    if (const std::string name = name_of(spec, place); name != spec.uid) command.model = name;
  }
  command.health_path = kind->health_path;
  return command;
}

std::shared_ptr<const AdapterCalls> adapter_calls(std::string_view engine, const std::string& served_name,
                                                  const std::vector<LaunchAdapter>& adapters) {
  if (adapters.empty()) return nullptr;
  const bool is_llama = engine == "llama.cpp";
  auto calls = std::make_shared<AdapterCalls>();
  for (size_t i = 0; i < adapters.size(); ++i) {
    const std::string& name = adapters[i].name;
    AdapterCall call{.model = name, .fields = {}};
    if (engine == "sglang") call.model = sglang_name(served_name) + ":" + name;
    if (is_llama) call = {.model = served_name, .fields = scales_of_llama(adapters.size(), i)};
    calls->emplace(name, std::move(call));
  }
  if (is_llama)
    calls->emplace("", AdapterCall{.model = served_name, .fields = scales_of_llama(adapters.size(), adapters.size())});
  return calls;
}

std::shared_ptr<const AdapterCalls> adapter_calls_of_node(const std::string& model,
                                                          const std::vector<LaunchAdapter>& adapters) {
  if (adapters.empty()) return nullptr;
  auto calls = std::make_shared<AdapterCalls>();
  for (const LaunchAdapter& adapter : adapters) {
    calls->emplace(adapter.name, AdapterCall{.model = model + ":" + adapter.name, .fields = {}});
  }
  return calls;
}

}  // namespace quern
