// Custom models over HTTP, and the catalogue as a list of registrations.
#include "platform/catalog/registrations.h"

#include <algorithm>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"
#include "server/fields.h"
#include "server/platform/json_route.h"
#include "server/platform/launch.h"
#include "server/platform/words.h"
#include "server/xinference/family.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using platform::Context;
using platform::json_route;

// Types that Xinference has and this catalogue has no models of.
constexpr auto kEmptyTypes = std::to_array<std::string_view>({"video", "flexible"});

ApiResult<std::string> read_type(const std::string& text) {
  const std::string_view type = platform::type_word(text);
  if (!type.empty()) return std::string(type);
  if (std::ranges::find(kEmptyTypes, lower_case(text)) != kEmptyTypes.end()) return std::string();
  return std::unexpected(ApiError{.message = fmt::format("Unsupported model type: {}", text), .param = "model_type"});
}

ApiResult<Json> list_models(const Context&, const ModelTable&, const http::Request& request) {
  const auto type = read_type(request.params[0]);
  if (!type) return std::unexpected(type.error());
  const auto detailed = platform::read_flag(request, "detailed", false);
  if (!detailed) return std::unexpected(detailed.error());
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  std::vector<const CatalogModel*> models = catalog->models();
  std::erase_if(models, [&](const CatalogModel* model) { return model_type_of(model->kind) != *type; });
  std::ranges::sort(models, {}, [](const CatalogModel* model) { return lower_case(model->name); });
  Json list = Json::array();
  for (const CatalogModel* model : models) {
    list.push_back(*detailed ? family_json(*model) : Json{{"model_name", model->name}, {"is_builtin", !model->custom}});
  }
  return list;
}

ApiResult<Json> show_model(const Context&, const ModelTable&, const http::Request& request) {
  const auto type = read_type(request.params[0]);
  if (!type) return std::unexpected(type.error());
  const auto catalog = open_catalog();
  if (!catalog) return std::unexpected(catalog.error());
  const CatalogModel* model = catalog->find_model(request.params[1]);
  if (model == nullptr || model_type_of(model->kind) != *type) {
    return std::unexpected(ApiError{
        .status = 404, .message = fmt::format("Model {} not found", request.params[1]), .param = "model_name"});
  }
  return family_json(*model);
}

ApiResult<Json> add_model(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto type = read_type(request.params[0]);
  if (!type) return std::unexpected(type.error());
  if (type->empty()) {
    return bad_field("model_type", fmt::format("Unsupported model type: {}", request.params[0]));
  }
  const auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  // The document as text, as the client sends it, or as an object.
  const Json* model = fields.any("model");
  if (model == nullptr) fields.fault("model", "model: is missing");
  if (fields.boolean("persist") == false) {
    fields.fault("persist", "persist: a registration stays until it is taken away; only true can be honoured");
  }
  if (fields.any("worker_ip") != nullptr) {
    fields.fault("worker_ip", "worker_ip: a registration holds on all machines");
  }
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto registered = register_model(model->is_string() ? model->get<std::string>() : dump_json(*model), *type);
  if (!registered) return std::unexpected(platform::platform_error(registered.error()));
  return Json();
}

ApiResult<Json> remove_model(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto type = read_type(request.params[0]);
  if (!type) return std::unexpected(type.error());
  if (const Status status = unregister_model(request.params[1], *type); !status) {
    return std::unexpected(platform::platform_error(status.error()));
  }
  return Json();
}

}  // namespace

Routes registration_routes(const Context& context) {
  return {
      needs(people::Scope::kModelsList,
            {"GET", "/v1/model_registrations/{model_type}", json_route(context, list_models)}),
      needs(people::Scope::kModelsRegister,
            {"POST", "/v1/model_registrations/{model_type}", json_route(context, add_model)}),
      needs(people::Scope::kModelsList,
            {"GET", "/v1/model_registrations/{model_type}/{model_name}", json_route(context, show_model)}),
      needs(people::Scope::kModelsRegister,
            {"DELETE", "/v1/model_registrations/{model_type}/{model_name}", json_route(context, remove_model)}),
  };
}

}  // namespace quern::xinference
