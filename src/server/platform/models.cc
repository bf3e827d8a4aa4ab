// Models as a whole: list, show, launch, change, stop.
#include <algorithm>

#include "base/status.h"
#include "server/platform/describe.h"
#include "server/platform/json_route.h"
#include "server/platform/launch.h"
#include "server/platform/routes.h"

namespace quern::platform {
namespace {

using http::asio::awaitable;

constexpr std::chrono::seconds kStopPatience{60};
constexpr std::chrono::milliseconds kStopPause{25};

Json adapter_json(Json parent, const LaunchAdapter& adapter, const std::string& id) {
  parent["parent"] = parent["id"];
  parent["root"] = adapter.path;
  parent["id"] = id;
  return parent;
}

// What a client calls the adapter: its name, unless that means another model.
std::string name_of(const Fleet& fleet, const ModelTable& models, const ModelView& view, const LaunchAdapter& adapter) {
  const auto meant = fleet.resolve(adapter.name);
  const bool is_it = meant && meant->uid == view.spec.uid && meant->adapter == adapter.name;
  return is_it && !models.choose_any(adapter.name) ? adapter.name : view.spec.uid + ":" + adapter.name;
}

Json models_json(const Context& context, const ModelTable& models) {
  Json data = Json::array();
  for (const ServedModel& model : models.models()) {
    data.push_back(describe(model));
    if (model.engine == nullptr) continue;
    for (const AdapterInfo& adapter : model.engine->adapters().list()) {
      Json json = describe(model);
      json["id"] = adapter.name;
      json["parent"] = model.id;
      json["root"] = adapter.path.string();
      data.push_back(std::move(json));
    }
  }
  const std::vector<ModelView> views = context.fleet == nullptr ? std::vector<ModelView>() : context.fleet->models();
  if (!views.empty()) {
    const Catalog catalog = Catalog::open().value_or(Catalog());
    for (const ModelView& view : views) {
      data.push_back(describe(view, catalog));
      const Json parent = data.back();
      for (const LaunchAdapter& adapter : view.spec.adapters) {
        data.push_back(adapter_json(parent, adapter, name_of(*context.fleet, models, view, adapter)));
      }
    }
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> model_json(const Context& context, const ModelTable& models, const std::string& uid) {
  if (const auto model = models.find(uid)) return describe(**model);
  const auto name = context.fleet == nullptr ? std::nullopt : context.fleet->resolve(uid);
  const auto view = context.fleet == nullptr ? std::nullopt : context.fleet->model(name ? name->uid : uid);
  if (!view) return std::unexpected(unknown_model(uid));
  Json json = describe(*view, Catalog::open().value_or(Catalog()));
  if (!name || name->adapter.empty()) return json;
  const auto adapter = std::ranges::find(view->spec.adapters, name->adapter, &LaunchAdapter::name);
  if (adapter == view->spec.adapters.end()) return std::unexpected(unknown_model(uid));
  return adapter_json(std::move(json), *adapter, uid);
}

ApiResult<Json> list_models(const Context& context, const ModelTable& models, const http::Request& request) {
  Json body = models_json(context, models);
  Json shown = Json::array();
  for (Json& model : body["data"]) {
    if (may_use_model(request, model["id"].get_ref<const std::string&>())) shown.push_back(std::move(model));
  }
  body["data"] = std::move(shown);
  return body;
}

ApiResult<Json> show_model(const Context& context, const ModelTable& models, const http::Request& request) {
  return model_json(context, models, request.params[0]);
}

RouteFunction launch_route(const Context& context) {
  return [context](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    auto body = parse_body(request);
    if (!body) co_return co_await send_error(reply, body.error());
    const auto wait =
        read_flag(request, "wait_ready", !body->is_object() || body->value("wait_ready", Json()) != false);
    if (!wait) co_return co_await send_error(reply, wait.error());
    co_await launch(context, models, std::move(*body), *wait, reply);
  };
}

// The fleet's model of this name, which a client may change.
ApiResult<ModelView> find_changeable(const Context& context, const ModelTable& models, const std::string& uid) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  if (models.find(uid)) {
    return std::unexpected(ApiError{
        .message = fmt::format("{} was named when this server was started, and ends with it", uid), .param = "model"});
  }
  const auto fleet = context.find_fleet();
  if (!fleet) return std::unexpected(fleet.error());
  auto view = (*fleet)->model(uid);
  if (!view) return std::unexpected(unknown_model(uid));
  return std::move(*view);
}

ApiResult<Json> update_model(const Context& context, const ModelTable& models, const http::Request& request) {
  const auto view = find_changeable(context, models, request.params[0]);
  if (!view) return std::unexpected(view.error());
  const auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  const auto spec = changed_spec(view->spec, *body);
  if (!spec) return std::unexpected(platform_error(spec.error()));
  if (const Status status = context.fleet->update(*spec); !status) {
    return std::unexpected(platform_error(status.error()));
  }
  return model_json(context, models, request.params[0]);
}

ApiResult<Json> unload_model(const Context& context, const ModelTable& models, const http::Request& request) {
  const auto view = find_changeable(context, models, request.params[0]);
  if (!view) return std::unexpected(view.error());
  if (const Status status = context.fleet->unload(request.params[0]); !status) {
    return std::unexpected(platform_error(status.error()));
  }
  return model_json(context, models, request.params[0]);
}

bool is_gone(const Fleet& fleet, const std::string& uid) {
  const auto view = fleet.model(uid);
  return !view || view->state == ModelState::kTerminated;
}

// Stops the model and answers null when it is gone, as Xinference does.
awaitable<void> stop(const Context& context, const std::string& uid, http::Reply& reply) {
  if (const Status status = context.fleet->terminate(uid); !status) {
    const ApiError error = platform_error(status.error());
    co_return co_await send_error(reply, error);
  }
  const auto begin = std::chrono::steady_clock::now();
  while (!is_gone(*context.fleet, uid) && std::chrono::steady_clock::now() - begin < kStopPatience) {
    if (reply.client_gone() || reply.out_of_time()) break;
    co_await pause(reply, kStopPause);
  }
  const Json nothing;
  co_await send_json(reply, nothing);
}

RouteFunction stop_route(const Context& context) {
  return [context](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const auto view = find_changeable(context, models, request.params[0]);
    if (!view) co_return co_await send_error(reply, view.error());
    co_await stop(context, request.params[0], reply);
  };
}

ApiResult<void> check_cancel(const ModelView& view) {
  if (view.state != ModelState::kReady) return {};
  return std::unexpected(ApiError{.status = 409,
                                  .message = fmt::format("{} is running, there is no launch to cancel", view.spec.uid),
                                  .code = "model_running"});
}

RouteFunction cancel_route(const Context& context) {
  return [context](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const auto view = find_changeable(context, models, request.params[0]);
    if (!view) co_return co_await send_error(reply, view.error());
    const auto allowed = check_cancel(*view);
    if (!allowed) co_return co_await send_error(reply, allowed.error());
    co_await stop(context, request.params[0], reply);
  };
}

}  // namespace

Routes model_routes(const Context& context) {
  return {
      needs(people::Scope::kModelsList, {"GET", "/v1/models", json_route(context, list_models)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/models", launch_route(context)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/models/{uid*}/cancel", cancel_route(context)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/models/{uid*}/unload", json_route(context, unload_model)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/models/{uid*}", json_route(context, show_model)}),
      needs(people::Scope::kModelsWrite, {"PUT", "/v1/models/{uid*}", json_route(context, update_model)}),
      needs(people::Scope::kModelsWrite, {"DELETE", "/v1/models/{uid*}", stop_route(context)}),
  };
}

}  // namespace quern::platform
