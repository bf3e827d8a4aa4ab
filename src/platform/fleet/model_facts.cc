#include "platform/fleet/model_facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/status.h"
#include "platform/catalog/catalog.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/catalog/estimate.h"
#include "platform/fleet/worker_kind.h"
#include "platform/model_name.h"
#include "platform/pull.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

// "0.5b", "0_5", "135m", "7" in billions; nullopt: not a size.
std::optional<double> billions(std::string text) {
  std::ranges::replace(text, '_', '.');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string unit = lower_case(std::string_view(end, text.data() + text.size() - end));
  if (unit == "m") return value / 1000;
  return unit.empty() || unit == "b" ? std::optional(value) : std::nullopt;
}

// Sizes are said as users round them: 0.135 is 135m, 1.8 is 1_8.
bool same_size(const std::string& wanted, const std::string& size) {
  if (same_name(wanted, size)) return true;
  const auto a = billions(wanted), b = billions(size);
  return a && b && std::abs(*a - *b) <= 0.01 * std::max(*a, *b);
}

bool reads_format(const WorkerKind& kind, const std::string& format) {
  return kind.formats.empty() || std::ranges::find(kind.formats, std::string_view(format)) != kind.formats.end();
}

// What the spec asks for, and the engine can read; the catalogue's order decides.
Result<const CatalogVariant*> choose_variant(const CatalogModel& model, const std::string& tag,
                                             const LaunchSpec& spec) {
  const WorkerKind& kind = *find_worker_kind(spec.engine);
  if (!tag.empty()) {
    QUERN_ASSIGN(const Catalog catalog, Catalog::open());
    QUERN_ASSIGN(const Catalog::Entry entry, catalog.find(model.name, tag));
    const auto same = [&](const CatalogVariant& one) { return one.tag == entry.variant->tag; };
    return &*std::ranges::find_if(model.variants, same);
  }
  std::string sizes, formats, quantizations;
  const auto note = [](std::string& list, const std::string& word) {
    if (!word.empty() && (", " + list + ",").find(", " + word + ",") == std::string::npos) {
      list += (list.empty() ? "" : ", ") + word;
    }
  };
  for (const CatalogVariant& variant : model.variants) {
    note(sizes, variant.size);
    if (!spec.size.empty() && !same_size(spec.size, variant.size)) continue;
    note(formats, variant.format);
    if (!spec.format.empty() ? !same_name(spec.format, variant.format) : !reads_format(kind, variant.format)) continue;
    note(quantizations, variant.quantization);
    if (spec.quantization.empty() || same_name(spec.quantization, variant.quantization)) return &variant;
  }
  if (formats.empty())
    return not_found(fmt::format("size: {} has no '{}', there are {}", model.name, spec.size, sizes));
  if (quantizations.empty() || spec.quantization.empty()) {
    return not_found(fmt::format("format: {} is there as {}; asked for: {}, engine {}", model.name, formats,
                                 spec.format.empty() ? "any" : spec.format, spec.engine));
  }
  return not_found(
      fmt::format("quantization: {} has no '{}', there are {}", model.name, spec.quantization, quantizations));
}

int64_t integer_option(const LaunchSpec& spec, const char* name, int64_t otherwise) {
  const auto it = spec.engine_options.find(name);
  if (it == spec.engine_options.end()) return otherwise;
  int64_t value = otherwise;
  std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
  return value;
}

// "512M", "2G", a number; as --kv-cache-memory takes it. 0 for what is none: the worker will say so.
int64_t bytes_option(const LaunchSpec& spec, const char* name) {
  const auto it = spec.engine_options.find(name);
  if (it == spec.engine_options.end()) return 0;
  double value = 0;
  const char* const last = it->second.data() + it->second.size();
  const auto [end, error] = std::from_chars(it->second.data(), last, value);
  if (error != std::errc() || value < 0 || value > 1e15) return 0;
  const std::string unit = lower_case(std::string_view(end, last));
  const int32_t shift = unit.starts_with('k') ? 10 : unit.starts_with('m') ? 20 : unit.starts_with('g') ? 30 : 0;
  return static_cast<int64_t>(value * static_cast<double>(int64_t{1} << shift));
}

// The options of `quern serve` that decide how much memory it takes.
EngineOptions engine_options(const LaunchSpec& spec) {
  EngineOptions options;
  const auto text = [&](const char* name, std::string& target) {
    if (const auto it = spec.engine_options.find(name); it != spec.engine_options.end()) target = it->second;
  };
  options.max_num_seqs =
      static_cast<int32_t>(std::clamp<int64_t>(integer_option(spec, "max_num_seqs", 64), 1, 1 << 16));
  options.max_num_batched_tokens = static_cast<int32_t>(
      std::clamp<int64_t>(integer_option(spec, "max_num_batched_tokens", options.max_num_batched_tokens), 1, 1 << 20));
  options.max_model_len = spec.context;
  if (spec.engine == "quern" && !spec.kv_cache_dtype.empty()) options.kv_cache_dtype = spec.kv_cache_dtype;
  text("kv_cache_dtype_v", options.kv_cache_dtype_v);
  options.kv_cache_bytes = bytes_option(spec, "kv_cache_memory");
  text("precision", options.precision);
  text("quantization", options.quantization);
  return options;
}

// Of another engine it is a guess: the same weights and cache.
Status estimate(const Result<ModelEstimate>& found, const LaunchSpec& spec, ModelFacts& facts) {
  if (found) {
    facts.memory_estimate = found->memory.total();
    if (facts.context == 0) facts.context = found->memory.max_model_len;
    return {};
  }
  // Of files that are here our engine's word counts; what is not here tells after it has been pulled.
  if (facts.path.empty() || spec.engine != "quern") return {};
  return std::unexpected(found.error());
}

Result<ModelFacts> facts_of_path(const std::string& path, const LaunchSpec& spec) {
  std::error_code error;
  if (!fs::exists(path, error)) return not_found(fmt::format("{}: no such file or folder", path));
  ModelFacts facts{.path = fs::absolute(path, error).string(), .type = spec.model_type};
  facts.format = path.ends_with(".gguf") ? "gguf" : "safetensors";
  const WorkerKind& kind = *find_worker_kind(spec.engine);
  if (!reads_format(kind, facts.format)) {
    return unsupported(fmt::format("{}: engine {} does not read {}", path, spec.engine, facts.format));
  }
  QUERN_TRY(estimate(estimate_model(facts.path, "", engine_options(spec)), spec, facts));
  return facts;
}

void add_catalog_facts(const CatalogModel& model, const CatalogVariant& variant, ModelFacts& facts) {
  facts.type = model_type_of(model.kind);
  facts.task = model.kind == "rerank" ? "rerank" : model.kind == "embedding" ? "embed" : "";
  facts.family = model.family_of(variant);
  facts.format = variant.format;
  facts.quantization = variant.quantization;
  facts.size = variant.size;
  facts.abilities = model.abilities;
  facts.context = model.context;
  facts.dimensions = model.dimensions;
}

Result<ModelFacts> facts_of_catalog(const ModelName& name, const LaunchSpec& spec) {
  QUERN_ASSIGN(const Catalog catalog, Catalog::open());
  const CatalogModel* model = catalog.find_model(name.name);
  if (model == nullptr) {
    return not_found(fmt::format("model_name: {} is no model of the catalogue and no file", spec.model_name));
  }
  QUERN_ASSIGN(const CatalogVariant* variant, choose_variant(*model, name.tag, spec));
  ModelFacts facts;
  add_catalog_facts(*model, *variant, facts);
  if (!spec.model_type.empty() && spec.model_type != facts.type) {
    return invalid_argument(fmt::format("model_type: {} is of type {}", model->name, facts.type));
  }
  const WorkerKind& kind = *find_worker_kind(spec.engine);
  if (std::ranges::find(kind.types, std::string_view(facts.type)) == kind.types.end()) {
    return unsupported(fmt::format("engine: {} serves no {} models", spec.engine, facts.type));
  }
  facts.model = model->name + ":" + variant->tag;
  if (auto local = find_local(*model, *variant)) facts.path = local->string();
  if (facts.path.empty() && !variant->tag.empty()) {
    if (auto stored = find_stored(facts.model)) facts.path = stored->path.string();
  }
  QUERN_TRY(estimate(estimate_variant(*model, *variant, engine_options(spec)), spec, facts));
  return facts;
}

// A repository, a package, a URL: known once it has been pulled.
Result<ModelFacts> facts_of_source(const ModelName& name, const LaunchSpec& spec) {
  ModelFacts facts{.model = spec.model_name, .type = spec.model_type};
  if (auto stored = find_stored(spec.model_name)) {
    facts.path = stored->path.string();
    facts.format = facts.path.ends_with(".gguf") ? "gguf" : "safetensors";
    QUERN_TRY(estimate(estimate_model(facts.path, "", engine_options(spec)), spec, facts));
  }
  if (name.kind == ModelNameKind::kUrl) facts.format = "gguf";
  return facts;
}

// What the catalogue says of a name whose files the user brings along.
void add_named(const LaunchSpec& spec, ModelFacts& facts) {
  const auto name = parse_model_name(spec.model_name);
  if (!name || name->kind != ModelNameKind::kCatalog) return;
  const auto catalog = Catalog::open();
  const CatalogModel* model = catalog ? catalog->find_model(name->name) : nullptr;
  if (model == nullptr || model->variants.empty()) return;
  const ModelFacts from_files = facts;
  add_catalog_facts(*model, model->variants.front(), facts);
  facts.format = from_files.format;
  facts.quantization = spec.quantization;
  facts.size = spec.size;
  facts.model.clear();
}

}  // namespace

Result<ModelFacts> read_model_facts(const LaunchSpec& spec) {
  const WorkerKind& kind = *find_worker_kind(spec.engine);
  ModelFacts facts;
  if (kind.address == WorkerAddress::kUrl) {
    facts = {.path = spec.model_path, .type = spec.model_type};
    add_named(spec, facts);
  } else if (!spec.model_path.empty()) {
    QUERN_ASSIGN(facts, facts_of_path(spec.model_path, spec));
    add_named(spec, facts);
  } else {
    QUERN_ASSIGN(const ModelName name, parse_model_name(spec.model_name));
    if (name.kind == ModelNameKind::kPath) {
      QUERN_ASSIGN(facts, facts_of_path(name.name, spec));
    } else if (name.kind == ModelNameKind::kCatalog) {
      QUERN_ASSIGN(facts, facts_of_catalog(name, spec));
    } else {
      QUERN_ASSIGN(facts, facts_of_source(name, spec));
    }
  }
  if (!spec.model_type.empty()) facts.type = spec.model_type;
  if (facts.type.empty()) facts.type = "LLM";
  if (spec.model_type == "rerank" && facts.task.empty()) facts.task = "rerank";
  if (spec.model_type == "embedding" && facts.task.empty()) facts.task = "embed";
  if (spec.context > 0) facts.context = spec.context;
  if (!kind.reserves_memory) facts.memory_estimate = 0;
  return facts;
}

}  // namespace quern
