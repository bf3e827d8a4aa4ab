#include "platform/catalog/describe.h"

#include <set>

#include "engine/kv_sizing.h"

namespace quern {
namespace {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
Json number_or_null(auto number) {
  return number > 0 ? Json(number) : Json(nullptr);
}

Json size_json(const CatalogSize& size) {
  Json json = {{"name", size.name}, {"parameters_b", number_or_null(size.parameters_b)}};
  if (size.active_b > 0) json["active_b"] = size.active_b;
  const std::pair<const char*, int32_t> numbers[] = {{"layers", size.layers},     {"hidden", size.hidden},
                                                     {"heads", size.heads},       {"kv_heads", size.kv_heads},
                                                     {"head_dim", size.head_dim}, {"kv_width", size.kv_width}};
  for (const auto& [name, value] : numbers) {
    if (value > 0) json[name] = value;
  }
  if (!size.family.empty()) json["family"] = size.family;
  if (!size.license.empty()) json["license"] = size.license;
  return json;
}

std::string hub_text(const char* prefix, const SourcePart& part) {
  return prefix + part.name + (part.version.empty() || part.version == "main" ? "" : "@" + part.version) +
         (part.path.empty() ? "" : ":" + part.path);
}

}  // namespace

std::string catalog_source_text(const ModelFileSource& source) {
  const SourcePart& part = source.parts.front();
  switch (source.kind) {
    case SourceKind::kHf: return hub_text("hf:", part);
    case SourceKind::kModelScope: return hub_text("modelscope:", part);
    case SourceKind::kPypi:
    case SourceKind::kPypiFolder: return "pypi:" + part.name + (part.version.empty() ? "" : "==" + part.version);
    case SourceKind::kPath:
    case SourceKind::kUrl: return part.name;
  }
  return "";
}

Json catalog_model_json(const CatalogModel& model) {
  Json sizes = Json::array();
  for (const CatalogSize& size : model.sizes) sizes.push_back(size_json(size));
  std::set<std::string> formats;
  for (const CatalogVariant& variant : model.variants) formats.insert(variant.format);
  const Json reasoning = {{"start", model.reasoning_start}, {"end", model.reasoning_end}};
  return {{"name", model.name},
          {"aliases", model.aliases},
          {"kind", model.kind},
          {"type", model_type_of(model.kind)},
          {"family", model.family},
          {"license", text_or_null(model.license)},
          {"description", model.description},
          {"context", number_or_null(model.context)},
          {"dimensions", number_or_null(model.dimensions)},
          {"languages", model.languages},
          {"abilities", model.abilities},
          {"tool_format", text_or_null(model.tool_format)},
          {"reasoning", model.reasoning_start.empty() ? Json(nullptr) : reasoning},
          {"sizes", std::move(sizes)},
          {"formats", formats},
          {"custom", model.custom}};
}

Json catalog_variant_json(const CatalogModel& model, const CatalogVariant& variant) {
  Json sources = Json::array();
  for (const ModelFileSource& source : variant.sources) sources.push_back(catalog_source_text(source));
  const CatalogSize* size = model.size_of(variant);
  return {{"name", model.name + ":" + variant.tag},
          {"kind", model.kind},
          {"family", model.family_of(variant)},
          {"license", text_or_null(model.license_of(variant))},
          {"context", number_or_null(model.context)},
          {"format", variant.format},
          {"quantization", text_or_null(variant.quantization)},
          {"size", size == nullptr ? text_or_null(variant.size) : size_json(*size)},
          {"bytes", variant.bytes < 0 ? Json(nullptr) : Json(variant.bytes)},
          {"sha256", text_or_null(variant.sha256)},
          {"description", model.description},
          {"sources", std::move(sources)}};
}

Json engine_check_json(const EngineCheck& check) {
  Json variants = Json::array();
  for (const VariantCheck& variant : check.variants) {
    variants.push_back({{"tag", variant.variant->tag},
                        {"format", variant.variant->format},
                        {"runs", variant.reason.empty()},
                        {"reason", text_or_null(variant.reason)},
                        {"note", text_or_null(variant.note)}});
  }
  return {{"engine", check.engine},
          {"runs", check.runs()},
          {"reason", text_or_null(check.reason)},
          {"program", text_or_null(check.program)},
          {"version", text_or_null(check.version)},
          {"variants", std::move(variants)}};
}

Json memory_json(const MemoryEstimate& memory) {
  return {{"weights", memory.weights},
          {"weights_mapped", memory.weights_mapped},
          {"kv_cache", memory.kv_cache},
          {"activations", memory.activations},
          {"overhead", memory.overhead},
          {"total", memory.total()},
          {"available", available_memory_bytes()},
          {"max_model_len", memory.max_model_len},
          {"kv_bytes_per_token", memory.kv_bytes_per_token}};
}

}  // namespace quern
