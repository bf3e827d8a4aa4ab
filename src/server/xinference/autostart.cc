// Xinference keeps a list of models to launch when it starts. Here every launched model comes back: the list is that of
// the fleet.
#include "base/status.h"
#include "server/fields.h"
#include "server/platform/json_route.h"
#include "server/platform/launch.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using http::asio::awaitable;
using platform::Context;
using platform::json_route;

Json launch_json(const LaunchSpec& spec) {
  Json json = {{"model_uid", spec.uid},       {"model_name", spec.model_name}, {"model_type", spec.model_type},
               {"model_engine", spec.engine}, {"replica", spec.replicas},      {"model_path", spec.model_path}};
  for (const char* name : {"model_type", "model_path"}) {
    if (json[name] == "") json[name] = nullptr;
  }
  return json;
}

Json entry_json(const ModelView& model) {
  return {{"enabled", true},
          {"launch", launch_json(model.spec)},
          {"priority", model.spec.priority},
          {"state", {{"instance_status", model_state_name(model.state)}, {"message", model.message}}}};
}

Json config_json(const Context& context) {
  Json list = Json::array();
  if (context.fleet != nullptr) {
    for (const ModelView& model : context.fleet->models()) list.push_back(entry_json(model));
  }
  return {{"models", std::move(list)}};
}

ApiResult<Json> show_config(const Context& context, const ModelTable&, const http::Request&) {
  return config_json(context);
}

ApiResult<Json> show_summary(const Context& context, const ModelTable&, const http::Request&) {
  Json list = Json::array();
  if (context.fleet != nullptr) {
    for (const ModelView& model : context.fleet->models()) {
      list.push_back({{"enabled", true}, {"model_uid", model.spec.uid}});
    }
  }
  return Json{{"models", std::move(list)}};
}

// Launches what is not there yet. What only Xinference's own start knows (tries, pauses) has no meaning here.
ApiResult<Json> add_entry(const Context& context, const ModelTable& models, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto fleet = context.find_fleet();
  if (!fleet) return std::unexpected(fleet.error());
  const auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  fields.accept({"priority", "max_retries", "retry_interval", "max_retry_interval", "state"});
  if (fields.boolean("enabled") == false) {
    fields.fault("enabled", "enabled: a launched model always comes back; DELETE /v1/models/{model_uid} ends it");
  }
  const Json* launch = fields.object("launch");
  if (launch == nullptr) fields.fault("launch", "launch: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto spec = launch_spec_from_json(*launch);
  if (!spec) return std::unexpected(platform::platform_error(spec.error()));
  if ((*fleet)->knows(spec->uid)) return config_json(context);
  if (!spec->uid.empty() && models.find(spec->uid)) {
    return bad_field("launch", fmt::format("launch: {} is the name of a model already", spec->uid));
  }
  if (const auto uid = (*fleet)->launch(*spec); !uid) return std::unexpected(platform::platform_error(uid.error()));
  return config_json(context);
}

ApiResult<Json> remove_entry(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const std::string& uid = request.params[0];
  if (context.fleet == nullptr || !context.fleet->knows(uid)) return std::unexpected(platform::unknown_model(uid));
  return std::unexpected(ApiError{
      .message =
          fmt::format("{} runs, and what runs comes back after a restart; DELETE /v1/models/{} ends it", uid, uid),
      .param = "model_uid"});
}

}  // namespace

Routes autostart_routes(const Context& context) {
  return {
      needs(people::Scope::kModelsList, {"GET", "/v1/autostart/models", json_route(context, show_config)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/autostart/models/summary", json_route(context, show_summary)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/autostart/models", json_route(context, add_entry)}),
      needs(people::Scope::kModelsWrite,
            {"DELETE", "/v1/autostart/models/{model_uid*}", json_route(context, remove_entry)}),
  };
}

}  // namespace quern::xinference
