#include "server/app.h"

#include <openssl/crypto.h>

#include <memory>

#include "base/status.h"
#include "server/openai/generate.h"
#include "server/page.h"

namespace quern {
namespace {

using http::asio::awaitable;
using RouteFunction = std::function<awaitable<void>(const ModelTable&, const http::Request&, http::Reply&)>;

struct Route {
  std::string_view method;
  std::string_view path;
  bool open = false;  // without a key
  RouteFunction run;
};

awaitable<void> send_json(http::Reply& reply, const Json& body) {
  return reply.send(200, "application/json", dump_json(body), {});
}

awaitable<void> send_error(http::Reply& reply, const ApiError& error, http::Headers headers = {}) {
  return reply.send(error.status, "application/json", openai_error_body(error), std::move(headers));
}

Json model_json(const ServedModel& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "quern"},
          {"max_model_len", model.engine->max_model_len()}};
}

// Initialiser lists stay out of coroutines: g++ 12 miscompiles them there.
http::Headers page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"},
          {"X-Content-Type-Options", "nosniff"}};
}
http::Headers bearer_headers() {
  return {{"WWW-Authenticate", "Bearer"}};
}
Json health_json() {
  return {{"status", "ok"}};
}
Json version_json() {
  return {{"version", "0.1.0"}};
}
Json models_json(const ModelTable& models) {
  Json data = Json::array();
  for (const ServedModel& model : models.models()) data.push_back(model_json(model));
  return {{"object", "list"}, {"data", std::move(data)}};
}

awaitable<void> page(const ModelTable&, const http::Request&, http::Reply& reply) {
  return reply.send(200, "text/html; charset=utf-8", std::string(page_html()), page_headers());
}

awaitable<void> health(const ModelTable&, const http::Request&, http::Reply& reply) {
  return send_json(reply, health_json());
}

awaitable<void> version(const ModelTable&, const http::Request&, http::Reply& reply) {
  return send_json(reply, version_json());
}

awaitable<void> list_models(const ModelTable& models, const http::Request&, http::Reply& reply) {
  return send_json(reply, models_json(models));
}

constexpr std::string_view kModelPrefix = "/v1/models/";

awaitable<void> show_model(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const auto model = models.find(request.path.substr(kModelPrefix.size()));
  return model ? send_json(reply, model_json(**model)) : send_error(reply, model.error());
}

const std::vector<Route>& routes() {
  static const std::vector<Route> list = {
      {"GET", "/", true, page},
      {"GET", "/health", true, health},
      {"GET", "/version", false, version},
      {"GET", "/v1/models", false, list_models},
      {"POST", "/v1/chat/completions", false, openai::chat_completions},
      {"POST", "/v1/completions", false, openai::completions},
  };
  return list;
}

// Keys are compared in constant time: how long a refusal takes tells nothing.
bool key_fits(const std::vector<std::string>& keys, const http::Request& request) {
  const auto header = request.header("authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (!header || !header->starts_with(kBearer)) return false;
  const std::string_view given = header->substr(kBearer.size());
  bool fits = false;
  for (const std::string& key : keys) {
    fits |= key.size() == given.size() && CRYPTO_memcmp(key.data(), given.data(), key.size()) == 0;
  }
  return fits;
}

ApiError key_needed() {
  return {
      .status = 401, .message = "a valid API key is needed", .type = "authentication_error", .code = "invalid_api_key"};
}

awaitable<void> dispatch(const ModelTable& models, const AppOptions& options, const http::Request& request,
                         http::Reply& reply) {
  static const Route show{"GET", kModelPrefix, false, show_model};
  const Route* found = nullptr;
  bool path_known = false;
  const auto consider = [&](const Route& route) {
    path_known = true;
    if (route.method == request.method) found = &route;
  };
  for (const Route& route : routes()) {
    if (route.path == request.path) consider(route);
  }
  if (request.path.starts_with(kModelPrefix) && request.path.size() > kModelPrefix.size()) consider(show);
  if ((found == nullptr || !found->open) && !options.api_keys.empty() && !key_fits(options.api_keys, request)) {
    return send_error(reply, key_needed(), bearer_headers());
  }
  if (found == nullptr) {
    return send_error(reply, {.status = path_known ? 405 : 404,
                              .message = fmt::format("{} {}: no such route", request.method, request.path)});
  }
  return found->run(models, request, reply);
}

}  // namespace

http::Handler make_app(const ModelTable& models, AppOptions options) {
  const auto shared = std::make_shared<const AppOptions>(std::move(options));
  return [&models, shared](const http::Request& request, http::Reply& reply) -> awaitable<void> {
    return dispatch(models, *shared, request, reply);
  };
}

}  // namespace quern
