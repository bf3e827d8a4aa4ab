#include "server/xinference/family.h"

#include "platform/pull.h"
#include "server/platform/context.h"
#include "server/platform/words.h"

namespace quern::xinference {
namespace {

using platform::FormatWords;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json number_or_null(int64_t number) {
  return number > 0 ? Json(number) : Json(nullptr);
}

Json spec_json(const CatalogModel& model, const CatalogVariant& variant) {
  const FormatWords words = platform::format_words(variant.format, variant.quantization);
  Json json = {{"model_format", words.format},
               {"model_size_in_billions", platform::size_word(variant.size)},
               {"quantization", words.quantization},
               {"quantizations", Json::array({words.quantization})}};
  if (const CatalogSize* size = model.size_of(variant); size != nullptr && size->active_b > 0) {
    json["activated_size_in_billions"] = platform::size_word(size->active_b);
  }
  if (!variant.sources.empty()) {
    const ModelFileSource& source = variant.sources.front();
    json["model_hub"] = platform::hub_word(source.kind);
    if (!source.parts.empty()) {
      json["model_id"] = source.parts.front().name;
      json["model_revision"] = text_or_null(source.parts.front().version);
    }
  }
  if (!variant.file.empty()) json["model_file_name_template"] = variant.file;
  json["multimodal_projectors"] = variant.projectors;
  json["cache_status"] = find_local(model, variant).has_value();
  return json;
}

void add_language_fields(const CatalogModel& model, Json& json) {
  json["model_lang"] = model.languages;
  json["model_ability"] = platform::ability_words(model.abilities);
  json["context_length"] = number_or_null(model.context);
  json["model_family"] = model.family;
  json["chat_template"] = text_or_null(model.custom ? model.chat_template : "");
  json["tool_parser"] = text_or_null(model.tool_format);
  json["reasoning_start_tag"] = text_or_null(model.reasoning_start);
  json["reasoning_end_tag"] = text_or_null(model.reasoning_end);
  json["stop_token_ids"] = Json::array();
  json["stop"] = Json::array();
}

}  // namespace

ApiResult<Catalog> open_catalog() {
  auto catalog = Catalog::open();
  if (!catalog) return std::unexpected(platform::platform_error(catalog.error()));
  return std::move(*catalog);
}

Json family_json(const CatalogModel& model) {
  const std::string_view type = model_type_of(model.kind);
  Json json = {{"version", 2},
               {"model_name", model.name},
               {"model_type", type},
               {"model_description", model.description},
               {"is_builtin", !model.custom}};
  if (type == "LLM") {
    add_language_fields(model, json);
  } else if (type == "embedding" || type == "rerank") {
    json["language"] = model.languages;
    json["max_tokens"] = number_or_null(model.context);
    if (type == "embedding") json["dimensions"] = number_or_null(model.dimensions);
    if (type == "rerank") json["type"] = "normal";
  } else {
    json["model_family"] = model.family;
    json["model_ability"] = platform::ability_words(model.abilities);
  }
  Json specs = Json::array();
  for (const CatalogVariant& variant : model.variants) specs.push_back(spec_json(model, variant));
  json["model_specs"] = std::move(specs);
  return json;
}

Json version_json(const CatalogModel& model, const CatalogVariant& variant) {
  const FormatWords words = platform::format_words(variant.format, variant.quantization);
  const auto path = find_local(model, variant);
  return {{"model_version", platform::version_word(model, variant)},
          {"model_file_location", path ? Json{{"local", path->string()}} : Json(nullptr)},
          {"cache_status", path.has_value()},
          {"model_format", words.format},
          {"model_size_in_billions", platform::size_word(variant.size)},
          {"quantization", words.quantization}};
}

}  // namespace quern::xinference
