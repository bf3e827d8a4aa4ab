#include "platform/catalog/estimate.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/model_name.h"
#include "platform/pull.h"

namespace quern {
namespace {

struct Bits {
  std::string_view quantization;
  double bits;
};
constexpr auto kBits = std::to_array<Bits>({
    {"iq1_s", 2.0},    {"iq1_m", 2.15},    {"iq2_xxs", 2.38},  {"iq2_xs", 2.59}, {"iq2_s", 2.74},  {"iq2_m", 2.93},
    {"iq3_xxs", 3.25}, {"iq3_xs", 3.5},    {"iq3_s", 3.66},    {"iq3_m", 3.76},  {"iq4_xs", 4.46}, {"iq4_nl", 4.68},
    {"q2_k", 3.16},    {"q2_k_s", 2.97},   {"q3_k_s", 3.64},   {"q3_k_m", 4.0},  {"q3_k_l", 4.3},  {"q3_k", 4.0},
    {"q4_0", 4.66},    {"q4_1", 5.12},     {"q4_k_s", 4.67},   {"q4_k_m", 4.89}, {"q4_k", 4.89},   {"q5_0", 5.57},
    {"q5_1", 6.05},    {"q5_k_s", 5.57},   {"q5_k_m", 5.7},    {"q5_k", 5.7},    {"q6_k", 6.56},   {"q8_0", 8.5},
    {"f16", 16},       {"fp16", 16},       {"bf16", 16},       {"f32", 32},      {"fp8", 8.1},     {"mxfp4", 5.2},
    {"awq", 4.9},      {"gptq-int4", 4.9}, {"gptq-int8", 8.6}, {"bnb", 5.0},     {"2bit", 2.6},    {"3bit", 3.6},
    {"4bit", 4.5},     {"5bit", 5.5},      {"6bit", 6.5},      {"8bit", 8.5},    {"8bits", 8.5},   {"int3", 3.9},
    {"int4", 4.9},     {"int8", 8.6},      {"q4", 4.89},       {"q6", 6.56},     {"nvfp4", 5.2},   {"mxfp8", 8.6},
});

bool is_encoder(const CatalogModel& model, const std::string& family) {
  constexpr std::array encoders = {"bert",       "roberta",    "xlm-roberta", "camembert",
                                   "distilbert", "nomic_bert", "modernbert"};
  return (model.kind == "embedding" || model.kind == "rerank") && std::ranges::find(encoders, family) != encoders.end();
}

// Where nothing says how weights are stored: encoders are float32 in their repositories, others 16 bits.
double bits_of(const CatalogVariant& variant, bool encoder) {
  if (variant.quantization.empty()) return encoder ? 32 : 16;
  return bits_per_weight(variant.quantization);
}

Result<ModelNumbers> numbers_of(const CatalogModel& model, const CatalogVariant& variant) {
  const CatalogSize* size = model.size_of(variant);
  const bool encoder = is_encoder(model, model.family_of(variant));
  ModelNumbers numbers{.weight_bytes = weight_bytes(model, variant), .has_cache = !encoder};
  if (numbers.weight_bytes == 0) {
    return unsupported(fmt::format("{}:{}: its size is not known before it is pulled", model.name, variant.tag));
  }
  const std::string name = model.name + ":" + variant.tag;
  if (size == nullptr || size->layers == 0 || size->hidden == 0 || size->heads == 0) {
    return unsupported(fmt::format("{}: its layers are not known before it is pulled", name));
  }
  numbers.layers = size->layers;
  numbers.hidden = size->hidden;
  numbers.heads = size->heads;
  numbers.kv_heads = size->kv_heads > 0 ? size->kv_heads : size->heads;
  numbers.head_dim = size->head_dim > 0 ? size->head_dim : size->hidden / size->heads;
  numbers.latent_width = size->kv_width;
  numbers.context_length = static_cast<int32_t>(model.context > 0 ? model.context : 2048);
  return numbers;
}

Result<Catalog::Entry> find_quantization(const CatalogModel& model, const CatalogVariant& variant,
                                         const std::string& quantization) {
  std::string known;
  for (const CatalogVariant& other : model.variants) {
    if (other.size != variant.size || other.quantization.empty()) continue;
    if (same_name(other.quantization, quantization)) return Catalog::Entry{&model, &other};
    known += (known.empty() ? "" : ", ") + other.quantization;
  }
  return not_found(fmt::format("quantization: {} of this size is not in '{}'; there are {}", model.name, quantization,
                               known.empty() ? "none" : known));
}

}  // namespace

double bits_per_weight(std::string_view quantization) {
  std::string name = lower_case(quantization);
  if (name.starts_with("ud-")) name.erase(0, 3);  // made with an importance matrix, of about the same size
  const auto find = [&name] { return std::ranges::find(kBits, std::string_view(name), &Bits::quantization); };
  auto it = find();
  if (it == kBits.end() && name.ends_with("_xl")) {
    name.replace(name.size() - 2, 2, "m");
    it = find();
  }
  while (it == kBits.end() && name.find_last_of("-_") != std::string::npos) {
    name.resize(name.find_last_of("-_"));
    it = find();
  }
  return it == kBits.end() ? 0 : it->bits;
}

int64_t weight_bytes(const CatalogModel& model, const CatalogVariant& variant) {
  if (variant.bytes > 0) return variant.bytes;
  const CatalogSize* size = model.size_of(variant);
  if (size == nullptr || size->parameters_b <= 0) return 0;
  return static_cast<int64_t>(size->parameters_b * 1e9 * bits_of(variant, is_encoder(model, model.family_of(variant))) /
                              8);
}

Result<ModelEstimate> estimate_variant(const CatalogModel& model, const CatalogVariant& variant,
                                       const EngineOptions& options) {
  ModelEstimate estimate;
  const auto stored = find_local(model, variant);
  const bool readable = variant.format == "gguf" || variant.format == "safetensors";
  if (stored && readable) {
    estimate.path = *stored;
    QUERN_ASSIGN(estimate.memory, estimate_memory(estimate.path, options));
    return estimate;
  }
  QUERN_ASSIGN(const ModelNumbers numbers, numbers_of(model, variant));
  QUERN_ASSIGN(estimate.memory, estimate_memory(numbers, options));
  return estimate;
}

Result<ModelEstimate> estimate_model(const std::string& model, const std::string& quantization,
                                     const EngineOptions& options) {
  QUERN_ASSIGN(const ModelName name, parse_model_name(model));
  if (name.kind == ModelNameKind::kCatalog) {
    QUERN_ASSIGN(const Catalog catalog, Catalog::open());
    QUERN_ASSIGN(Catalog::Entry entry, catalog.find(name.name, name.tag));
    if (!quantization.empty()) {
      QUERN_ASSIGN(entry, find_quantization(*entry.model, *entry.variant, quantization));
    }
    return estimate_variant(*entry.model, *entry.variant, options);
  }
  if (!quantization.empty()) return invalid_argument("quantization: only of a model of the catalogue");
  ModelEstimate estimate{.memory = {}, .path = name.name};
  if (name.kind != ModelNameKind::kPath) {
    QUERN_ASSIGN(const StoredModel stored, find_stored(model));
    estimate.path = stored.path;
  }
  QUERN_ASSIGN(estimate.memory, estimate_memory(estimate.path, options));
  return estimate;
}

}  // namespace quern
