#include "server/basic/routes.h"

#include "base/status.h"
#include "server/page.h"

namespace quern::basic {
namespace {

using http::asio::awaitable;

// Initialiser lists stay out of coroutines: g++ 12 miscompiles them there.
http::Headers page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"},
          {"X-Content-Type-Options", "nosniff"}};
}

RouteFunction page_route(std::string_view (*html)()) {
  return [html](const ModelTable&, const http::Request&, http::Reply& reply) -> awaitable<void> {
    return reply.send(200, "text/html; charset=utf-8", std::string(html()), page_headers());
  };
}

Json status_json(std::string_view status) {
  return {{"status", status}};
}

Json model_json(const ServedModel& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "quern"},
          {"task", model_task_name(model.task)},
          {"max_model_len", model.max_model_len()}};
}

Json models_json(const ModelTable& models) {
  Json data = Json::array();
  for (const ServedModel& model : models.models()) {
    data.push_back(model_json(model));
    if (model.engine == nullptr) continue;
    for (const AdapterInfo& adapter : model.engine->adapters().list()) {
      Json json = model_json(model);
      json["id"] = adapter.name;
      json["parent"] = model.id;
      json["root"] = adapter.path.string();
      data.push_back(std::move(json));
    }
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

// Alive, and done loading.
RouteFunction health_route(const App& app) {
  return [&app](const ModelTable&, const http::Request&, http::Reply& reply) -> awaitable<void> {
    const bool ready = app.is_ready();
    return send_json(reply, status_json(ready ? "ok" : "loading"), ready ? 200 : 503);
  };
}

// To be sent work: not while loading, not while stopping.
RouteFunction ready_route(const App& app) {
  return [&app](const ModelTable&, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const bool ready = app.is_ready() && !request.draining;
    return send_json(reply,
                     status_json(ready              ? "ready"
                                 : request.draining ? "stopping"
                                                    : "loading"),
                     ready ? 200 : 503);
  };
}

RouteFunction metrics_route(const App& app) {
  return [&app](const ModelTable& models, const http::Request&, http::Reply& reply) -> awaitable<void> {
    return reply.send(200, "text/plain; version=0.0.4; charset=utf-8", app.metrics().render(models), {});
  };
}

awaitable<void> version(const ModelTable&, const http::Request&, http::Reply& reply) {
  return send_json(reply, {{"version", "0.1.0"}});
}

awaitable<void> list_models(const ModelTable& models, const http::Request&, http::Reply& reply) {
  return send_json(reply, models_json(models));
}

awaitable<void> show_model(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const auto model = models.find(request.params[0]);
  return model ? send_json(reply, model_json(**model)) : send_error(reply, model.error());
}

awaitable<void> openapi(const ModelTable&, const http::Request&, http::Reply& reply) {
  return reply.send(200, "application/json", std::string(openapi_json()), {});
}

}  // namespace

Routes routes(const App& app) {
  return {
      {"GET", "/", page_route(page_html), Access::kOpen},
      {"GET", "/docs", page_route(docs_html), Access::kOpen},
      {"GET", "/openapi.json", openapi},
      {"GET", "/health", health_route(app), Access::kLiveness},
      {"GET", "/ping", health_route(app), Access::kLiveness},
      {"GET", "/ready", ready_route(app), Access::kLiveness},
      {"GET", "/version", version},
      {"GET", "/metrics", metrics_route(app)},
      {"GET", "/v1/models", list_models},
      {"GET", "/v1/models/{model*}", show_model},
  };
}

}  // namespace quern::basic
