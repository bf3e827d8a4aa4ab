// /api/oidc: the browser goes to the provider and comes back; the page then changes a code for tokens at POST /token.
#include "base/status.h"
#include "server/offload.h"
#include "server/people/people_json.h"
#include "server/people/routes.h"

namespace quern {
namespace {

using http::asio::awaitable;

constexpr std::string_view kCookie = "quern_oidc";

// SameSite=Lax: the provider sends the browser back by a link, with which Strict would not let the cookie go.
std::string cookie_header(const PeopleRoutesOptions& options, std::string_view value, int seconds) {
  const bool secure = options.oidc->settings().redirect_uri.starts_with("https:");
  return fmt::format("{}={}; Path={}/api/oidc; Max-Age={}; HttpOnly; SameSite=Lax{}", kCookie, value, options.root_path,
                     seconds, secure ? "; Secure" : "");
}

std::string cookie_of(const http::Request& request) {
  std::string_view rest = request.header("cookie").value_or("");
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(kCookie) && one.substr(kCookie.size()).starts_with('=')) {
      return std::string(one.substr(kCookie.size() + 1));
    }
  }
  return "";
}

ApiError oidc_off() {
  return {.status = 404, .message = "this server has no OpenID provider: see --oidc-issuer", .code = "oidc_off"};
}

awaitable<void> redirect(http::Reply& reply, std::string url, std::string cookie) {
  http::Headers headers;
  headers.emplace_back("Location", std::move(url));
  headers.emplace_back("Set-Cookie", std::move(cookie));
  headers.emplace_back("Cache-Control", "no-store");
  headers.emplace_back("Referrer-Policy", "no-referrer");
  return reply.send(302, "", "", std::move(headers));
}

awaitable<void> authorize(PeopleRoutesOptions options, http::Reply& reply) {
  if (options.oidc == nullptr || options.people == nullptr) co_return co_await send_error(reply, oidc_off());
  const std::function<Result<people::Oidc::Beginning>()> begin = [&] { return options.oidc->begin(); };
  const auto beginning = co_await offload(begin);
  if (!beginning) co_return co_await send_error(reply, people_error(beginning.error()));
  std::string cookie = cookie_header(options, beginning->state, 600);
  co_await redirect(reply, beginning->url, std::move(cookie));
}

// Who comes back, as a user of ours.
Result<people::User> come_back(const PeopleRoutesOptions& options, const http::Request& request) {
  const std::string state(request.query_value("state").value_or("")), code(request.query_value("code").value_or(""));
  if (request.query_value("error") || state.empty() || code.empty()) {
    return make_error(ErrorCode::kPermissionDenied, "the provider did not sign you in");
  }
  QUERN_ASSIGN(const people::OidcIdentity who, options.oidc->finish(state, cookie_of(request), code));
  return options.people->oidc_user(who.subject, who.name, who.role);
}

awaitable<void> callback(PeopleRoutesOptions options, const http::Request& request, http::Reply& reply) {
  if (options.oidc == nullptr || options.people == nullptr) co_return co_await send_error(reply, oidc_off());
  const std::function<Result<people::User>()> work = [&] { return come_back(options, request); };
  const auto user = co_await offload(work);
  if (!user) {
    people::AuditLine line;
    line.time = options.people->now();
    line.who = "nobody";
    line.action = "login by oidc";
    line.target = user.error().message;
    line.address = request.peer;
    line.outcome = "403";
    (void)options.people->audit().add(line);
    reply.set_header("Set-Cookie", cookie_header(options, "", 0));
    co_return co_await send_error(reply, people_error(user.error()));
  }
  // Behind '#': browsers send that part to nobody.
  std::string url = fmt::format("{}/#oidc_code={}", options.root_path, options.oidc->make_code(user->id));
  std::string cookie = cookie_header(options, "", 0);
  co_await redirect(reply, std::move(url), std::move(cookie));
}

}  // namespace

Routes oidc_routes(const PeopleRoutesOptions& options) {
  return {
      {"GET", "/api/oidc/authorize",
       [options](const ModelTable&, const http::Request&, http::Reply& reply) { return authorize(options, reply); },
       Access::kOpen},
      {"GET", "/api/oidc/callback",
       [options](const ModelTable&, const http::Request& request, http::Reply& reply) {
         return callback(options, request, reply);
       },
       Access::kOpen},
  };
}

}  // namespace quern
