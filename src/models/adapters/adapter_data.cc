#include "models/adapters/adapter_data.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "formats/gguf/gguf_file.h"
#include "formats/safetensors/safetensors_file.h"
#include "tensor/dequantize.h"

namespace quern {

namespace {

constexpr int32_t kRankMax = 1024;

// One projection of a file, before it is known which rows are whose.
struct RawPair {
  const TensorView* down = nullptr;
  const TensorView* up = nullptr;
  float scale = 1;  // alpha / rank
};
struct Place {
  int32_t layer = 0;
  std::string module;  // "q_proj", "attn_q" …
  auto operator<=>(const Place&) const = default;
};
using RawPairs = std::map<Place, RawPair>;

// The projections a module's rows belong to, in order: several where the file's layout fuses them.
struct Part {
  AdapterSite site;
  int64_t rows = 0;
};
struct Target {
  std::vector<Part> parts;
  int64_t cols = 0;
};

std::optional<Target> target_of(const std::string& module, const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  const int64_t hidden = config.hidden_size, intermediate = config.mlp.intermediate_size;
  const Part query{AdapterSite::kQuery, int64_t{attention.num_heads} * attention.head_dim};
  const Part key{AdapterSite::kKey, int64_t{attention.num_kv_heads} * attention.head_dim};
  const Part value{AdapterSite::kValue, int64_t{attention.num_kv_heads} * attention.value_dim};
  const Part gate{AdapterSite::kGate, intermediate}, up{AdapterSite::kUp, intermediate};
  const auto is = [&](std::string_view peft, std::string_view gguf) { return module == peft || module == gguf; };
  if (is("q_proj", "attn_q")) return Target{{query}, hidden};
  if (is("k_proj", "attn_k")) return Target{{key}, hidden};
  if (is("v_proj", "attn_v")) return Target{{value}, hidden};
  if (is("qkv_proj", "attn_qkv") && attention.layout == QkvLayout::kFused) return Target{{query, key, value}, hidden};
  if (is("o_proj", "attn_output")) {
    return Target{{{AdapterSite::kOutput, hidden}}, int64_t{attention.num_heads} * attention.value_dim};
  }
  if (is("down_proj", "ffn_down")) return Target{{{AdapterSite::kDown, hidden}}, intermediate};
  if (is("gate_up_proj", "ffn_gate_up") && config.mlp.layout == GateUpLayout::kFused) return Target{{gate, up}, hidden};
  // Where gate and up lie in one matrix, GGUF calls it ffn_up.
  if (module == "ffn_up" && config.mlp.layout == GateUpLayout::kFused) return Target{{gate, up}, hidden};
  if (is("gate_proj", "ffn_gate") && config.mlp.gated) return Target{{gate}, hidden};
  if (is("up_proj", "ffn_up")) return Target{{up}, hidden};
  return std::nullopt;
}

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elements()));
  dequantize(view.dtype, view.bytes.data(), values.data(), view.elements());
  return values;
}

// Rotary pairs of a head lie in two halves, or side by side: which, is the base file's choice.
void reorder_heads(AdapterData::Pair& pair, int64_t head_dim, bool to_pairs) {
  std::vector<float> moved(pair.up.size());
  const int64_t half = head_dim / 2;
  for (int64_t row = 0; row < pair.rows; ++row) {
    const int64_t within = row % head_dim, head = row - within;
    const int64_t in_pairs = head + within % half * 2 + within / half;  // where a row of the halved order goes
    const int64_t source = to_pairs ? row : in_pairs, target = to_pairs ? in_pairs : row;
    std::copy_n(pair.up.begin() + source * pair.rank, pair.rank, moved.begin() + target * pair.rank);
  }
  pair.up = std::move(moved);
}

class AdapterReader {
 public:
  AdapterReader(std::string name, const ModelConfig& config) : name_(std::move(name)), config_(config) {}

  // in_pairs: how this file orders the rows of queries and keys.
  Result<AdapterData> build(const RawPairs& raw, bool in_pairs) {
    if (config_.attention.mla.kv_lora_rank > 0) {
      return unsupported(fmt::format("{}: models with latent attention take no adapters", name_));
    }
    if (raw.empty()) return invalid_file(fmt::format("{}: has no adapter tensors", name_));
    AdapterData data;
    for (const auto& [place, pair] : raw) QUERN_TRY(add(place, pair, in_pairs, data));
    return data;
  }

 private:
  Status add(const Place& place, const RawPair& raw, bool in_pairs, AdapterData& data) {
    const std::string where = fmt::format("{}: layer {} {}", name_, place.layer, place.module);
    if (place.layer < 0 || place.layer >= config_.num_layers) {
      return invalid_file(fmt::format("{}: the model has {} layers", where, config_.num_layers));
    }
    const bool experts = config_.moe.num_experts > 0 && config_.moe.is_moe[static_cast<size_t>(place.layer)] != 0;
    const auto target = target_of(place.module, config_);
    const bool feeds = target && target->parts[0].site >= AdapterSite::kGate;
    if (!target || (experts && feeds)) return unsupported(fmt::format("{}: no adapter can go there", where));
    if (raw.down == nullptr || raw.up == nullptr) {
      return invalid_file(fmt::format("{}: has only one of A and B", where));
    }
    int64_t rows = 0;
    for (const Part& part : target->parts) rows += part.rows;
    const Shape& down = raw.down->shape;
    const Shape& up = raw.up->shape;
    const bool fits =
        down.size() == 2 && up.size() == 2 && down[1] == target->cols && up[0] == rows && down[0] == up[1];
    if (!fits) {
      return invalid_file(fmt::format("{}: A {} and B {} do not fit a projection of [{}, {}]", where,
                                      shape_string(down), shape_string(up), rows, target->cols));
    }
    if (down[0] < 1 || down[0] > kRankMax) {
      return invalid_file(fmt::format("{}: rank {} is not between 1 and {}", where, down[0], kRankMax));
    }
    return split(*target, raw, place.layer, in_pairs, where, data);
  }

  Status split(const Target& target, const RawPair& raw, int32_t layer, bool in_pairs, const std::string& where,
               AdapterData& data) {
    const auto rank = static_cast<int32_t>(raw.down->shape[0]);
    const std::vector<float> down = floats_of(*raw.down);
    std::vector<float> up = floats_of(*raw.up);
    for (float& value : up) value *= raw.scale;
    const auto is_finite = [](float value) { return std::isfinite(value); };
    if (!std::ranges::all_of(down, is_finite) || !std::ranges::all_of(up, is_finite)) {
      return invalid_file(fmt::format("{}: has values that are not finite", where));
    }
    int64_t begin = 0;
    for (const Part& part : target.parts) {
      AdapterData::Pair pair{.layer = layer, .site = part.site, .rank = rank, .rows = part.rows, .cols = target.cols};
      pair.down = down;
      pair.up.assign(up.begin() + begin * rank, up.begin() + (begin + part.rows) * rank);
      begin += part.rows;
      const bool rotates = part.site == AdapterSite::kQuery || part.site == AdapterSite::kKey;
      const bool want_pairs = config_.attention.rows_in_pairs;
      if (rotates && in_pairs != want_pairs) reorder_heads(pair, config_.attention.head_dim, want_pairs);
      data.pairs.push_back(std::move(pair));
    }
    return {};
  }

  std::string name_;
  const ModelConfig& config_;
};

// "…layers.12.self_attn.q_proj" → (12, "q_proj").
std::optional<Place> peft_place(std::string_view module) {
  constexpr std::string_view kLayers = "layers.";
  const size_t layers = module.find(kLayers);
  const size_t last = module.rfind('.');
  if (layers == std::string_view::npos || last == std::string_view::npos) return std::nullopt;
  Place place;
  const char* begin = module.data() + layers + kLayers.size();
  const auto [end, error] = std::from_chars(begin, module.data() + module.size(), place.layer);
  if (error != std::errc() || end == module.data() + module.size() || *end != '.') return std::nullopt;
  place.module = module.substr(last + 1);
  return place;
}

struct PeftConfig {
  double alpha = 8;
  std::optional<int64_t> rank;  // r
  bool rank_stabilized = false;
  Json rank_pattern = Json::object(), alpha_pattern = Json::object();
};

Result<PeftConfig> read_peft_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "adapter_config.json";
  QUERN_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  auto parsed = parse_json(text, path.string(), {.bytes_max = 1 << 20});
  if (!parsed) return invalid_file(parsed.error().message);
  const Json& json = *parsed;
  const auto wrong = [&](std::string_view what) { return invalid_file(fmt::format("{}: {}", path.string(), what)); };
  if (!json.is_object()) return wrong("not an object");
  if (json.value("peft_type", Json("LORA")) != "LORA") return wrong("peft_type is not LORA");
  PeftConfig config;
  const auto alpha = json.find("lora_alpha");
  if (alpha != json.end() && !alpha->is_number()) return wrong("lora_alpha is not a number");
  if (alpha != json.end()) config.alpha = alpha->get<double>();
  if (!std::isfinite(config.alpha)) return wrong("lora_alpha is not finite");
  const auto rank = json.find("r");
  if (rank != json.end() && !rank->is_number_integer()) return wrong("r is not a whole number");
  if (rank != json.end()) config.rank = rank->get<int64_t>();
  config.rank_stabilized = json.value("use_rslora", Json(false)) == true;
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias"}) {
    if (json.value(key, Json(false)) == true) return unsupported(fmt::format("{}: {}", path.string(), key));
  }
  if (const Json bias = json.value("bias", Json("none")); bias != "none") return wrong("bias is not none");
  if (const Json extra = json.value("modules_to_save", Json()); !extra.is_null() && !extra.empty()) {
    return unsupported(fmt::format("{}: modules_to_save", path.string()));
  }
  for (auto [key, target] :
       {std::pair{"rank_pattern", &config.rank_pattern}, {"alpha_pattern", &config.alpha_pattern}}) {
    if (const auto found = json.find(key); found != json.end() && found->is_object()) *target = *found;
  }
  return config;
}

// What a pattern says of this module: a number by the end of its name.
std::optional<double> in_pattern(const Json& pattern, std::string_view module) {
  for (const auto& [key, value] : pattern.items()) {
    const bool fits = module == key || module.ends_with("." + key);
    if (fits && value.is_number()) return value.get<double>();
  }
  return std::nullopt;
}

double peft_alpha(const PeftConfig& config, std::string_view module) {
  return in_pattern(config.alpha_pattern, module).value_or(config.alpha);
}

// The rank that the configuration gives to a module, if it says.
std::optional<double> peft_rank(const PeftConfig& config, std::string_view module) {
  const auto own = in_pattern(config.rank_pattern, module);
  return own || !config.rank ? own : std::optional<double>(static_cast<double>(*config.rank));
}

Result<AdapterData> read_peft(const std::filesystem::path& folder, const ModelConfig& config) {
  QUERN_ASSIGN(const PeftConfig peft, read_peft_config(folder));
  const std::filesystem::path path = folder / "adapter_model.safetensors";
  QUERN_ASSIGN(const auto file, SafetensorsFile::open(path));
  RawPairs pairs;
  for (const TensorView& view : file->tensors()) {
    std::string_view name = view.name;
    const bool is_down = name.ends_with(".lora_A.weight"), is_up = name.ends_with(".lora_B.weight");
    const auto place = peft_place(name.substr(0, name.size() - std::min(name.size(), size_t{14})));
    if ((!is_down && !is_up) || !place) {
      return unsupported(fmt::format("{}: tensor {} is no LoRA of a layer's projection", path.string(), view.name));
    }
    RawPair& pair = pairs[*place];
    (is_down ? pair.down : pair.up) = &view;
    if (is_down && !view.shape.empty()) {
      const double rank = static_cast<double>(std::max<int64_t>(1, view.shape[0]));
      const std::string_view module = name.substr(0, name.size() - 14);
      if (const auto told = peft_rank(peft, module); told && *told != rank) {
        return invalid_file(
            fmt::format("{}: {} has rank {}, adapter_config.json says {}", path.string(), view.name, rank, *told));
      }
      const double alpha = peft_alpha(peft, module);
      pair.scale = static_cast<float>(alpha / (peft.rank_stabilized ? std::sqrt(rank) : rank));
    }
  }
  return AdapterReader(path.string(), config).build(pairs, /*in_pairs=*/false);
}

Result<AdapterData> read_gguf(const std::filesystem::path& path, const ModelConfig& config) {
  QUERN_ASSIGN(const auto file, GgufFile::open(path));
  const GgufMetadata& metadata = file->metadata();
  const auto in_file = [&](std::string_view what) { return invalid_file(fmt::format("{}: {}", path.string(), what)); };
  const auto type = metadata.get_string("general.type");
  if (!type || *type != "adapter") return in_file("general.type is not adapter");
  const auto kind = metadata.get_string("adapter.type");
  if (!kind || *kind != "lora") return in_file("adapter.type is not lora");
  QUERN_ASSIGN(const std::string architecture, metadata.get_string("general.architecture"));
  double alpha = 0;
  if (const auto value = metadata.get_float("adapter.lora.alpha")) alpha = *value;
  if (!std::isfinite(alpha)) return in_file("adapter.lora.alpha is not finite");
  RawPairs pairs;
  for (const TensorView& view : file->tensors()) {
    const std::string_view name = view.name;
    constexpr std::string_view kBlock = "blk.";
    const bool is_down = name.ends_with(".weight.lora_a"), is_up = name.ends_with(".weight.lora_b");
    Place place;
    const char* begin = name.data() + std::min(name.size(), kBlock.size());
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), place.layer);
    if (!name.starts_with(kBlock) || (!is_down && !is_up) || error != std::errc() || *end != '.') {
      return unsupported(fmt::format("{}: tensor {} is no LoRA of a layer's projection", path.string(), view.name));
    }
    const size_t module = static_cast<size_t>(end - name.data()) + 1;
    place.module = name.substr(module, name.size() - 14 - module);
    RawPair& pair = pairs[place];
    (is_down ? pair.down : pair.up) = &view;
    // As llama.cpp: without alpha the pair counts as it is.
    if (is_down && alpha != 0 && !view.shape.empty()) {
      pair.scale = static_cast<float>(alpha / static_cast<double>(std::max<int64_t>(1, view.shape[0])));
    }
  }
  return AdapterReader(path.string(), config).build(pairs, /*in_pairs=*/architecture == "llama");
}

// FNV-1a over what the adapter computes with.
uint64_t digest_of(const AdapterData& data) {
  uint64_t hash = 14695981039346656037u;
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const AdapterData::Pair& pair : data.pairs) {
    mix(static_cast<uint64_t>(pair.layer) << 8 | static_cast<uint64_t>(pair.site));
    for (const auto* values : {&pair.down, &pair.up}) {
      for (float value : *values) mix(std::bit_cast<uint32_t>(value));
    }
  }
  return hash;
}

}  // namespace

Result<AdapterData> read_adapter(const std::filesystem::path& path, const ModelConfig& config) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: no such file or folder", path.string()));
  }
  const bool is_folder = std::filesystem::is_directory(path, error);
  QUERN_ASSIGN(AdapterData data, is_folder ? read_peft(path, config) : read_gguf(path, config));
  data.digest = digest_of(data);
  return data;
}

}  // namespace quern
