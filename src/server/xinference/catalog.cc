// Families and versions of the catalogue, the engines that can run a model here, and a launch by version.
#include "platform/catalog/catalog.h"

#include <algorithm>
#include <map>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/catalog/engines.h"
#include "server/fields.h"
#include "server/offload.h"
#include "server/platform/json_route.h"
#include "server/platform/launch.h"
#include "server/platform/words.h"
#include "server/xinference/family.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using http::asio::awaitable;
using platform::Context;
using platform::json_route;

// `type` empty: any. Video and flexible models are none of this catalogue's.
ApiResult<const CatalogModel*> find_model(const Catalog& catalog, const std::string& type, const std::string& name) {
  const CatalogModel* model = catalog.find_model(name);
  const bool fits = model != nullptr && (type.empty() || platform::type_word(type) == model_type_of(model->kind));
  if (fits) return model;
  return std::unexpected(
      ApiError{.status = 404, .message = fmt::format("Model {} not found", name), .param = "model_name"});
}

bool can(const CatalogModel& model, std::string_view ability) {
  return std::ranges::find(model.abilities, ability) != model.abilities.end();
}

// Names of models by what they can do; of those alone that `fits` takes.
Json names_by_ability(const Catalog& catalog, const std::function<bool(const CatalogModel&)>& fits) {
  Json chat = Json::array(), generate = Json::array(), tools = Json::array(), vision = Json::array();
  for (const CatalogModel* model : catalog.models()) {
    if (model_type_of(model->kind) != "LLM" || !fits(*model)) continue;
    if (can(*model, "chat")) chat.push_back(model->name);
    if (can(*model, "completion")) generate.push_back(model->name);
    if (can(*model, "tools")) tools.push_back(model->name);
    if (can(*model, "vision")) vision.push_back(model->name);
  }
  return {{"chat", std::move(chat)},
          {"generate", std::move(generate)},
          {"tools", std::move(tools)},
          {"vision", std::move(vision)}};
}

ApiResult<Json> families(const Context&, const ModelTable&, const http::Request&) {
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  return names_by_ability(*catalog, [](const CatalogModel&) { return true; });
}

// vLLM reads folders of safetensors; which architectures, it says when it is started.
ApiResult<Json> vllm_supported(const Context&, const ModelTable&, const http::Request&) {
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  Json all = names_by_ability(*catalog, [](const CatalogModel& model) {
    return std::ranges::any_of(model.variants, [](const CatalogVariant& v) { return v.format == "safetensors"; });
  });
  return Json{{"chat", all["chat"]}, {"generate", all["generate"]}};
}

// A family's template, where one was registered; those of the built-in catalogue come with the models' files.
ApiResult<Json> prompts(const Context&, const ModelTable&, const http::Request&) {
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  Json all = Json::object();
  for (const CatalogModel* model : catalog->models()) {
    if (model->chat_template.empty() || model_type_of(model->kind) != "LLM") continue;
    all[model->name] = {
        {"chat_template", model->chat_template}, {"stop_token_ids", Json::array()}, {"stop", Json::array()}};
  }
  return all;
}

ApiResult<Json> versions(const Context&, const ModelTable&, const http::Request& request) {
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  const auto model = find_model(*catalog, request.params[0], request.params[1]);
  if (!model) return std::unexpected(model.error());
  Json list = Json::array();
  for (const CatalogVariant& variant : (*model)->variants) list.push_back(version_json(**model, variant));
  return list;
}

// Variants that an engine can run, those of one format and size in one entry.
Json engine_entries(const CatalogModel& model, const EngineCheck& check) {
  std::map<std::pair<std::string, std::string>, Json> groups;
  Json list = Json::array();
  for (const VariantCheck& variant : check.variants) {
    if (!variant.reason.empty()) continue;
    const auto words = platform::format_words(variant.variant->format, variant.variant->quantization);
    Json& entry = groups[{words.format, variant.variant->size}];
    if (entry.is_null()) {
      entry = {{"model_name", model.name},
               {"model_format", words.format},
               {"model_size_in_billions", platform::size_word(variant.variant->size)},
               {"quantizations", Json::array()}};
    }
    entry["quantizations"].push_back(words.quantization);
  }
  for (auto& [key, entry] : groups) list.push_back(std::move(entry));
  return list;
}

ApiResult<Json> engines_of(const std::string& type, const std::string& name) {
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  const auto model = find_model(*catalog, type, name);
  if (!model) return std::unexpected(model.error());
  std::vector<const CatalogVariant*> variants;
  for (const CatalogVariant& variant : (*model)->variants) variants.push_back(&variant);
  Json engines = Json::object();
  for (const EngineCheck& check : check_engines(**model, variants, EngineOptions())) {
    engines[check.engine] = check.runs() ? engine_entries(**model, check) : Json(check.reason);
  }
  return engines;
}

ApiResult<Json> engines(const Context&, const ModelTable&, const http::Request& request) {
  return engines_of("", request.params[0]);
}

ApiResult<Json> engines_of_type(const Context&, const ModelTable&, const http::Request& request) {
  return engines_of(request.params[0], request.params[1]);
}

// The body of a launch that means the version's variant.
ApiResult<Json> launch_of_version(const Json& body) {
  Fields fields(body);
  const auto version = fields.string("model_version");
  if (!version) fields.fault("model_version", "model_version: is missing");
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  for (const CatalogModel* model : catalog->models()) {
    if (!same_name(model->name, version->substr(0, version->find("--")))) continue;
    for (const CatalogVariant& variant : model->variants) {
      if (platform::version_word(*model, variant) != *version) continue;
      Json launch = body;
      launch.erase("model_version");
      launch["model_name"] = model->name + ":" + variant.tag;
      return launch;
    }
  }
  return std::unexpected(ApiError{.status = 404,
                                  .message = fmt::format("model_version: {} is no version of the catalogue", *version),
                                  .param = "model_version"});
}

RouteFunction launch_version_route(const Context& context) {
  return [context](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const auto body = parse_body(request);
    if (!body) co_return co_await send_error(reply, body.error());
    const auto wait = platform::read_flag(request, "wait_ready", true);
    if (!wait) co_return co_await send_error(reply, wait.error());
    const std::function<ApiResult<Json>()> work = [&] { return launch_of_version(*body); };
    auto launch = co_await offload(work);
    if (!launch) co_return co_await send_error(reply, launch.error());
    co_await platform::launch(context, models, std::move(*launch), *wait, reply);
  };
}

}  // namespace

Routes catalog_routes(const Context& context) {
  return {
      needs(people::Scope::kModelsList, {"GET", "/v1/models/prompts", json_route(context, prompts)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/models/families", json_route(context, families)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/models/vllm-supported", json_route(context, vllm_supported)}),
      needs(people::Scope::kModelsList,
            {"GET", "/v1/models/{model_type}/{model_name}/versions", json_route(context, versions)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/models/instance", launch_version_route(context)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/engines/{model_name}", json_route(context, engines)}),
      needs(people::Scope::kModelsList,
            {"GET", "/v1/engines/{model_type}/{model_name}", json_route(context, engines_of_type)}),
  };
}

}  // namespace quern::xinference
