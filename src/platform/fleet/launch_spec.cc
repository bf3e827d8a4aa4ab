#include "platform/fleet/launch_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/catalog/json_fields.h"

namespace quern {
namespace {

constexpr size_t kPairsMax = 128;  // of options, of variables, of labels
constexpr size_t kValueMax = 4096;

struct Word {
  std::string_view written, meant;
};

// Xinference's words, and what users of the engines write.
constexpr auto kEngines = std::to_array<Word>({{"quern", "quern"},
                                               {"transformers", "quern"},
                                               {"sentence_transformers", "quern"},
                                               {"flag", "quern"},
                                               {"vllm", "vllm"},
                                               {"sglang", "sglang"},
                                               {"llama.cpp", "llama.cpp"},
                                               {"llama-server", "llama.cpp"},
                                               {"openai", "openai"}});
constexpr auto kTypes = std::to_array<Word>(
    {{"llm", "LLM"}, {"embedding", "embedding"}, {"rerank", "rerank"}, {"image", "image"}, {"audio", "audio"}});
constexpr auto kFormats = std::to_array<Word>({{"ggufv2", "gguf"}, {"pytorch", "safetensors"}});
constexpr std::array kQuantizedFormats = {"awq", "gptq", "fp8", "bnb", "fp4"};

std::string_view meaning(std::span<const Word> words, const std::string& written) {
  for (const Word& word : words) {
    if (same_name(word.written, written)) return word.meant;
  }
  return {};
}

bool is_uid(std::string_view text) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("._:/@-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, allowed);
}

// A name of an environment variable or a label.
bool is_plain_name(std::string_view text, std::string_view more) {
  const auto allowed = [&](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || more.find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= 128 && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, allowed);
}

std::optional<std::string> scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  return std::nullopt;
}

Result<std::map<std::string, std::string>> read_pairs(const JsonFields& fields, const char* key,
                                                      std::string_view more) {
  std::map<std::string, std::string> pairs;
  if (!fields.has(key)) return pairs;
  QUERN_ASSIGN(const JsonFields inner, fields.object(key));
  for (const auto& item : inner.json().items()) {
    if (pairs.size() == kPairsMax) return fields.refuse(key, fmt::format("more than {} values", kPairsMax));
    if (!is_plain_name(item.key(), more)) return inner.refuse(item.key(), "is no name");
    const auto text = scalar_text(item.value());
    if (!text) return inner.refuse(item.key(), "must be text, a number or a flag");
    if (text->size() > kValueMax || text->find('\0') != std::string::npos) {
      return inner.refuse(item.key(), fmt::format("{} bytes, at most {} without NUL", text->size(), kValueMax));
    }
    pairs[item.key()] = *text;
  }
  return pairs;
}

// Of several words for one thing the first that is there.
const char* spelled(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (fields.has(key)) return key;
  }
  return *keys.begin();
}

// "5m", "30s", 300, -1.
Result<double> read_keep_alive(const JsonFields& fields) {
  const char* key = spelled(fields, {"keep_alive_s", "keep_alive"});
  if (!fields.has(key)) return -1;
  double seconds = 0;
  const Json& value = fields.json().at(key);
  if (value.is_number()) {
    seconds = value.get<double>();
  } else if (value.is_string()) {
    const std::string text = value.get<std::string>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    const std::string_view unit(end, text.data() + text.size() - end);
    const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
    if (error != std::errc() || factor == 0) return fields.refuse(key, "must be seconds, or like 30s, 5m, 2h");
    seconds *= factor;
  } else {
    return fields.refuse(key, "must be seconds, or like 30s, 5m, 2h");
  }
  if (seconds < 0) return -1;
  if (!(seconds > 0) || seconds > 1e9) return fields.refuse(key, "must be more than 0, or -1: stays");
  return seconds;
}

Result<std::string> read_size(const JsonFields& fields) {
  const char* key = spelled(fields, {"size", "model_size_in_billions"});
  if (!fields.has(key)) return std::string();
  const Json& value = fields.json().at(key);
  if (value.is_number_integer()) return value.dump();
  if (value.is_number()) return fmt::format("{}", value.get<double>());
  return fields.text_or(key, "", 32);
}

Status read_names(const JsonFields& fields, LaunchSpec& spec) {
  QUERN_ASSIGN(spec.uid, fields.text_or(spelled(fields, {"uid", "model_uid"}), "", 128));
  if (!spec.uid.empty() && !is_uid(spec.uid)) {
    return fields.refuse(spelled(fields, {"uid", "model_uid"}), "must be of A-Z a-z 0-9 . _ : / @ -");
  }
  QUERN_ASSIGN(spec.model_name, fields.text_or(spelled(fields, {"model_name", "model"}), ""));
  QUERN_ASSIGN(spec.model_path, fields.text_or("model_path", "", kValueMax));
  if (spec.model_name.empty() && spec.model_path.empty()) return fields.refuse("model_name", "is missing");
  const char* type = spelled(fields, {"model_type", "type"});
  QUERN_ASSIGN(const std::string typed, fields.text_or(type, "", 32));
  spec.model_type = meaning(kTypes, typed);
  if (!typed.empty() && spec.model_type.empty()) {
    return fields.refuse(type, fmt::format("'{}' is none of LLM, embedding, rerank, image, audio", typed));
  }
  return {};
}

Status read_choice(const JsonFields& fields, LaunchSpec& spec) {
  const char* engine = spelled(fields, {"engine", "model_engine"});
  QUERN_ASSIGN(const std::string named, fields.text_or(engine, "quern", 64));
  spec.engine = meaning(kEngines, named);
  if (spec.engine.empty()) {
    return fields.refuse(engine, fmt::format("'{}' is none of quern, vllm, sglang, llama.cpp, openai", named));
  }
  QUERN_ASSIGN(std::string format, fields.text_or(spelled(fields, {"format", "model_format"}), "", 32));
  format = lower_case(format);
  const std::string_view meant = meaning(kFormats, format);
  spec.format = meant.empty() ? format : std::string(meant);
  QUERN_ASSIGN(spec.size, read_size(fields));
  QUERN_ASSIGN(spec.quantization, fields.text_or("quantization", "", 64));
  if (same_name(spec.quantization, "none")) spec.quantization.clear();
  // To Xinference a way of quantising is a format; to us it is a quantisation of safetensors.
  if (std::ranges::find(kQuantizedFormats, spec.format) != kQuantizedFormats.end()) {
    const std::string scheme = std::exchange(spec.format, "safetensors");
    spec.quantization = scheme + (spec.quantization.empty() ? "" : "-" + lower_case(spec.quantization));
  }
  QUERN_ASSIGN(spec.kv_cache_dtype, fields.text_or("kv_cache_dtype", "", 32));
  return {};
}

Result<std::string> gpu_list(const JsonFields& fields, const char* key) {
  const Json& value = fields.json().at(key);
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.empty() || list.size() > 64) return fields.refuse(key, "must be 1 to 64 numbers of devices");
  std::string text = "cuda:";
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_number_unsigned() || list[i].get<uint64_t>() > 255) return fields.refuse(key, "must be numbers");
    text += (i == 0 ? "" : ",") + list[i].dump();
  }
  return text;
}

Status set_place(const JsonFields& fields, LaunchSpec& spec) {
  QUERN_ASSIGN(const std::string machine, fields.text_or("worker_ip", "", 256));
  if (!machine.empty() && machine != "local") spec.node_labels["address"] = machine;
  if (fields.has("gpu_idx")) {
    QUERN_ASSIGN(spec.device, gpu_list(fields, "gpu_idx"));
  }
  if (!fields.has("n_gpu")) return {};
  const Json& count = fields.json().at("n_gpu");
  if (count.is_string() && same_name(count.get<std::string>(), "auto")) return {};
  if (!count.is_number_unsigned() || count.get<uint64_t>() > 64) {
    return fields.refuse("n_gpu", "must be auto or a number from 0 to 64");
  }
  if (count.get<int64_t>() == 0) {
    spec.device = "cpu";
  } else if (spec.engine == "vllm" || spec.engine == "sglang") {
    spec.engine_options["tensor_parallel_size"] = count.dump();
  } else if (spec.engine == "quern") {
    return fields.refuse("n_gpu", fmt::format("{}: engine quern computes on the processor", count.dump()));
  }
  return {};
}

// Xinference's list of replicas with a place each: honoured when the places are the same.
Status read_replica_config(const JsonFields& fields, LaunchSpec& spec) {
  QUERN_ASSIGN(const auto replicas, fields.objects("replica_config", 64));
  if (replicas.empty()) return {};
  for (const char* other : {"worker_ip", "n_gpu", "gpu_idx"}) {
    const bool is_auto = fields.has(other) && fields.json().at(other) == "auto";
    if (fields.has(other) && !is_auto)
      return fields.refuse("replica_config", fmt::format("not together with {}", other));
  }
  const char* key = spelled(fields, {"replicas", "replica"});
  if (fields.has(key) && spec.replicas != static_cast<int32_t>(replicas.size()) && spec.replicas != 1) {
    return fields.refuse("replica_config", fmt::format("{} replicas, {} says {}", replicas.size(), key, spec.replicas));
  }
  spec.replicas = static_cast<int32_t>(replicas.size());
  std::optional<Json> place;
  for (const JsonFields& replica : replicas) {
    QUERN_TRY(replica.only({"replica_uid", "devices"}));
    QUERN_ASSIGN(const auto devices, replica.objects("devices", 64));
    if (devices.size() > 1) return replica.refuse("devices", "a replica over several machines is not supported");
    const Json here = devices.empty() ? Json::object() : devices.front().json();
    if (place && *place != here) return replica.refuse("devices", "differ between replicas, which is not supported");
    place = here;
    if (devices.empty()) continue;
    QUERN_TRY(devices.front().only({"worker_ip", "n_gpu", "gpu_idx"}));
    QUERN_TRY(set_place(devices.front(), spec));
  }
  return {};
}

Status read_copies(const JsonFields& fields, LaunchSpec& spec) {
  const char* replicas = spelled(fields, {"replicas", "replica"});
  QUERN_ASSIGN(const int64_t count, fields.integer_or(replicas, 1, 0, 64));
  spec.replicas = static_cast<int32_t>(count);
  QUERN_ASSIGN(spec.device, fields.text_or("device", "auto", 64));
  QUERN_TRY(set_place(fields, spec));
  const auto devices = std::ranges::count(spec.device, ',') + 1;
  if (fields.has("gpu_idx") && spec.replicas > 1 && devices % spec.replicas != 0) {
    return fields.refuse("gpu_idx", fmt::format("{} devices cannot be shared by {} replicas", devices, spec.replicas));
  }
  QUERN_TRY(read_replica_config(fields, spec));
  QUERN_ASSIGN(const int64_t machines, fields.integer_or("n_worker", 1, 1, 1024));
  if (machines > 1) return fields.refuse("n_worker", "a replica over several machines is not supported");
  QUERN_ASSIGN(const int64_t context,
               fields.integer_or(spelled(fields, {"context", "max_model_len"}), 0, 0, INT32_MAX));
  spec.context = static_cast<int32_t>(context);
  QUERN_ASSIGN(const int64_t priority, fields.integer_or("priority", 0, -1000000, 1000000));
  spec.priority = static_cast<int32_t>(priority);
  QUERN_ASSIGN(const int64_t limit,
               fields.integer_or(spelled(fields, {"request_limit", "request_limits"}), 0, 0, 1000000));
  spec.request_limit = static_cast<int32_t>(limit);
  QUERN_ASSIGN(spec.keep_alive_s, read_keep_alive(fields));
  if (fields.has("pinned")) {
    if (!fields.json().at("pinned").is_boolean()) return fields.refuse("pinned", "must be true or false");
    spec.pinned = fields.json().at("pinned").get<bool>();
  }
  return {};
}

Status read_adapters(const JsonFields& fields, LaunchSpec& spec) {
  QUERN_ASSIGN(std::vector<JsonFields> adapters, fields.objects("adapters", 64));
  const char* name = "name";
  const char* path = "path";
  if (fields.has("peft_model_config")) {
    if (!adapters.empty()) return fields.refuse("peft_model_config", "not together with adapters");
    QUERN_ASSIGN(const JsonFields peft, fields.object("peft_model_config"));
    for (const auto& item : peft.json().items()) {
      const bool list = item.key() == "lora_list";
      const bool images = item.key() == "image_lora_load_kwargs" || item.key() == "image_lora_fuse_kwargs";
      if (!list && (!images || !(item.value().is_null() || item.value().empty()))) {
        return peft.refuse(item.key(), "is not supported");
      }
    }
    QUERN_ASSIGN(adapters, peft.objects("lora_list", 64));
    name = "lora_name";
    path = "local_path";
  }
  for (const JsonFields& adapter : adapters) {
    QUERN_TRY(adapter.only({name, path}));
    LaunchAdapter one;
    QUERN_ASSIGN(one.name, adapter.text(name, 128));
    QUERN_ASSIGN(one.path, adapter.text(path, kValueMax));
    if (!is_uid(one.name)) return adapter.refuse(name, "must be of A-Z a-z 0-9 . _ : / @ -");
    if (one.path.empty()) return adapter.refuse(path, "is empty");
    const bool twice = std::ranges::find(spec.adapters, one.name, &LaunchAdapter::name) != spec.adapters.end();
    if (twice) return adapter.refuse(name, "is another adapter's too");
    if (one.name == spec.uid) return adapter.refuse(name, "is the model's own");
    spec.adapters.push_back(std::move(one));
  }
  return {};
}

// Fields of Xinference's that say how it should work inside: taken where they ask for what is so anyway.
Status check_foreign(const JsonFields& fields) {
  const auto asks = [&](const char* key) {
    if (!fields.has(key)) return false;
    const Json& value = fields.json().at(key);
    return value != false && !((value.is_array() || value.is_object() || value.is_string()) && value.empty());
  };
  for (const char* key : {"enable_virtual_env", "virtual_env_packages", "virtual_env_find_links"}) {
    if (asks(key)) return fields.refuse(key, "engines are programs of this machine, there are no virtual environments");
  }
  if (fields.has("enable_thinking")) {
    return fields.refuse("enable_thinking", "is chosen by each request (chat_template_kwargs)");
  }
  for (const char* key : {"download_hub", "multimodal_projector", "quantization_config"}) {
    if (asks(key)) return fields.refuse(key, "is not supported");
  }
  return {};
}

constexpr auto kKnown = std::to_array<std::string_view>({"uid",
                                                         "model_uid",
                                                         "model_name",
                                                         "model",
                                                         "model_type",
                                                         "type",
                                                         "model_path",
                                                         "format",
                                                         "model_format",
                                                         "size",
                                                         "quantization",
                                                         "engine",
                                                         "model_engine",
                                                         "device",
                                                         "replicas",
                                                         "replica",
                                                         "context",
                                                         "max_model_len",
                                                         "kv_cache_dtype",
                                                         "adapters",
                                                         "env",
                                                         "envs",
                                                         "engine_options",
                                                         "node_labels",
                                                         "priority",
                                                         "pinned",
                                                         "keep_alive",
                                                         "keep_alive_s",
                                                         "request_limit",
                                                         "request_limits",
                                                         "n_gpu",
                                                         "gpu_idx",
                                                         "worker_ip",
                                                         "n_worker",
                                                         "replica_config",
                                                         "download_hub",
                                                         "wait_ready",
                                                         "enable_thinking",
                                                         "peft_model_config",
                                                         "enable_virtual_env",
                                                         "virtual_env_packages",
                                                         "virtual_env_find_links",
                                                         "model_size_in_billions",
                                                         "multimodal_projector",
                                                         "quantization_config",
                                                         "trust_remote_code"});

Status add_engine_option(const JsonFields& fields, const std::string& name, std::string value, LaunchSpec& spec) {
  std::string key = name;
  std::ranges::replace(key, '-', '_');
  if (!is_plain_name(key, "")) return fields.refuse(name, "is no name of an option");
  if (spec.engine_options.size() >= kPairsMax) {
    return fields.refuse(name, fmt::format("more than {} options", kPairsMax));
  }
  spec.engine_options[key] = std::move(value);
  return {};
}

Status read_engine_options(const JsonFields& fields, LaunchSpec& spec) {
  QUERN_ASSIGN(const auto own, read_pairs(fields, "engine_options", "-"));
  for (const auto& [name, value] : own) QUERN_TRY(add_engine_option(fields, name, value, spec));
  // Code from a repository: our engine and llama.cpp run none, so there is nothing to permit.
  if (fields.has("trust_remote_code") && (spec.engine == "vllm" || spec.engine == "sglang")) {
    spec.engine_options["trust_remote_code"] = scalar_text(fields.json().at("trust_remote_code")).value_or("false");
  }
  for (const auto& item : fields.json().items()) {
    if (std::ranges::find(kKnown, std::string_view(item.key())) != kKnown.end() || item.value().is_null()) continue;
    auto value = scalar_text(item.value());
    if (!value) return fields.refuse(item.key(), "is unknown");
    if (value->size() > kValueMax || value->find('\0') != std::string::npos) {
      return fields.refuse(item.key(), fmt::format("{} bytes, at most {}", value->size(), kValueMax));
    }
    QUERN_TRY(add_engine_option(fields, item.key(), std::move(*value), spec));
  }
  return {};
}

Result<LaunchSpec> read_spec(const Json& body) {
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(body, ""));
  LaunchSpec spec;
  QUERN_TRY(read_names(fields, spec));
  QUERN_TRY(read_choice(fields, spec));
  // Labels first: worker_ip adds one of them.
  QUERN_ASSIGN(spec.node_labels, read_pairs(fields, "node_labels", "-./"));
  QUERN_TRY(read_copies(fields, spec));
  QUERN_TRY(read_adapters(fields, spec));
  QUERN_TRY(check_foreign(fields));
  QUERN_ASSIGN(spec.env, read_pairs(fields, spelled(fields, {"env", "envs"}), ""));
  QUERN_TRY(read_engine_options(fields, spec));
  return spec;
}

}  // namespace

Json LaunchSpec::to_json() const {
  const auto pairs = [](const std::map<std::string, std::string>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) json[name] = value;
    return json;
  };
  Json adapter_list = Json::array();
  for (const LaunchAdapter& adapter : adapters)
    adapter_list.push_back({{"name", adapter.name}, {"path", adapter.path}});
  return {{"uid", uid},
          {"model_name", model_name},
          {"model_type", model_type},
          {"model_path", model_path},
          {"format", format},
          {"size", size},
          {"quantization", quantization},
          {"engine", engine},
          {"device", device},
          {"replicas", replicas},
          {"context", context},
          {"kv_cache_dtype", kv_cache_dtype},
          {"adapters", std::move(adapter_list)},
          {"engine_options", pairs(engine_options)},
          {"env", pairs(env)},
          {"node_labels", pairs(node_labels)},
          {"priority", priority},
          {"pinned", pinned},
          {"keep_alive_s", keep_alive_s},
          {"request_limit", request_limit}};
}

Result<LaunchSpec> launch_spec_from_json(const Json& body) {
  return read_spec(body);
}

Result<LaunchSpec> stored_launch_spec(std::string_view json) {
  QUERN_ASSIGN(const Json body, parse_json(json, "stored launch"));
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(body, ""));
  const Json whole = LaunchSpec().to_json();
  for (const auto& item : whole.items()) {
    if (!fields.has(item.key().c_str())) return fields.refuse(item.key(), "is missing");
  }
  return read_spec(body);
}

}  // namespace quern
