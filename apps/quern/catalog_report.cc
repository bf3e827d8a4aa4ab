#include "catalog_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

namespace quern::cli {
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

std::string size_text(int64_t bytes) {
  if (bytes < 0) return "?";
  if (bytes >= (int64_t{1} << 30)) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void print_json(const Json& json) {
  std::printf("%s\n", dump_json(json, 2).c_str());
}

std::string source_text(const ModelFileSource& source) {
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

Json stored_json(const StoredModel& model) {
  return {{"name", model.name},
          {"path", model.path.string()},
          {"bytes", model.bytes},
          {"source", model.source},
          {"pulled_at", model.pulled_at}};
}

Json model_json(const CatalogModel& model) {
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

Json variant_json(const CatalogModel& model, const CatalogVariant& variant) {
  Json sources = Json::array();
  for (const ModelFileSource& source : variant.sources) sources.push_back(source_text(source));
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

}  // namespace quern::cli
