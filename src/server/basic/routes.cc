#include "server/basic/routes.h"

#include <openssl/sha.h>

#include <array>

#include "base/status.h"
#include "server/page.h"
#include "text/base64.h"

namespace quern::basic {
namespace {

using http::asio::awaitable;
using people::Scope;

// The one script of a page runs because the policy names its hash (Content Security Policy 3, section 2.3.1); no other
// does, whatever a model writes.
std::string script_hash(std::string_view html) {
  constexpr std::string_view kOpen = "<script>";
  const size_t begin = html.find(kOpen) + kOpen.size();
  const std::string_view script = html.substr(begin, html.find("</script>", begin) - begin);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(script.data()), script.size(), digest.data());
  return base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// Initialiser lists stay out of coroutines: g++ 12 miscompiles them there. Trusted Types: no text becomes markup,
// whatever the script does with it.
http::Headers page_headers(std::string_view html) {
  return {{"Content-Security-Policy",
           fmt::format("default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'sha256-{}'; "
                       "require-trusted-types-for 'script'; trusted-types 'none'; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                       script_hash(html))},
          {"Referrer-Policy", "no-referrer"},
          {"X-Content-Type-Options", "nosniff"}};
}

RouteFunction page_route(std::string_view (*html)()) {
  return [html, headers = page_headers(html())](const ModelTable&, const http::Request&,
                                                http::Reply& reply) -> awaitable<void> {
    return reply.send(200, "text/html; charset=utf-8", std::string(html()), headers);
  };
}

Json status_json(std::string_view status) {
  return {{"status", status}};
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
    std::string text = app.metrics().render(models);
    if (app.door() != nullptr) text = co_await app.door()->add_metrics(std::move(text));
    co_await reply.send(200, "text/plain; version=0.0.4; charset=utf-8", std::move(text));
  };
}

awaitable<void> version(const ModelTable&, const http::Request&, http::Reply& reply) {
  return send_json(reply, {{"version", "0.1.0"}});
}

awaitable<void> openapi(const ModelTable&, const http::Request&, http::Reply& reply) {
  return reply.send(200, "application/json", std::string(openapi_json()), {});
}

}  // namespace

Routes routes(const App& app) {
  return {
      {"GET", "/", page_route(page_html), Access::kOpen},
      {"GET", "/setup", page_route(page_html), Access::kOpen},  // the one-time link of a first start leads here
      {"GET", "/docs", page_route(docs_html), Access::kOpen},
      needs(Scope::kSignedIn, {"GET", "/openapi.json", openapi}),
      {"GET", "/health", health_route(app), Access::kLiveness},
      {"GET", "/ping", health_route(app), Access::kLiveness},
      {"GET", "/ready", ready_route(app), Access::kLiveness},
      needs(Scope::kSignedIn, {"GET", "/version", version}),
      needs(Scope::kMonitorView, {"GET", "/metrics", metrics_route(app)}),
  };
}

}  // namespace quern::basic
