// The first admin, signing in and out, and who one is.
#include "base/status.h"
#include "server/fields.h"
#include "server/people/people_json.h"
#include "server/people/routes.h"

namespace quern {
namespace {

using people::People;
using people::Scope;

void note(People& people, const http::Request& request, const std::string& who, const char* action,
          const std::string& outcome) {
  // Signing in does not fail because it cannot be written down.
  (void)people.audit().add(
      {.time = people.now(), .who = who, .action = action, .address = request.peer, .outcome = outcome});
}

ApiError login_error(const Error& error, const People& people, const std::string& name, const http::Request& request) {
  ApiError result = people_error(error);
  if (error.code == ErrorCode::kPermissionDenied) {
    result.status = 401;
    result.type = "authentication_error";
    result.code = "invalid_credentials";
  }
  if (error.code == ErrorCode::kResourceExhausted) {
    const int64_t seconds =
        std::max(people.banned_seconds("user:" + name), request.peer.empty() ? 0 : people.banned_seconds(request.peer));
    result.retry_after_s = static_cast<int32_t>(std::max<int64_t>(1, seconds));
  }
  return result;
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text.substr(0, 64);
}

ApiResult<Json> login(People& people, people::Oidc* oidc, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  fields.accept({"grant_type"});
  const auto code = fields.string("code"), name = fields.string("username"), password = fields.string("password");
  if (!code && (!name || name->empty())) fields.fault("username", "username: is missing");
  if (!code && !password) fields.fault("password", "password: is missing");
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (code) {
    const auto user = oidc != nullptr ? oidc->take_code(*code) : std::nullopt;
    if (!user) {
      return std::unexpected(ApiError{.status = 401,
                                      .message = "code: is used up, too old or was never given out",
                                      .type = "authentication_error",
                                      .param = "code"});
    }
    const auto known = people.user(*user);
    const auto tokens = known ? people.start_session(*known) : Result<people::Tokens>(std::unexpected(known.error()));
    if (!tokens) return std::unexpected(people_error(tokens.error()));
    note(people, request, tokens->user.name, "login by oidc", "ok");
    return tokens_json(*tokens);
  }
  const auto tokens = people.login(*name, *password, request.peer);
  if (!tokens) {
    const bool wrong = tokens.error().code == ErrorCode::kPermissionDenied;
    const ApiError error = login_error(tokens.error(), people, *name, request);
    // A banned one is not heard, and does not fill the log either.
    if (wrong) note(people, request, printable(*name), "login", std::to_string(error.status));
    return std::unexpected(error);
  }
  note(people, request, tokens->user.name, "login", "ok");
  return tokens_json(*tokens);
}

ApiResult<Json> refresh(People& people, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  fields.accept({"grant_type"});
  const auto token = fields.string("refresh_token");
  if (!token) fields.fault("refresh_token", "refresh_token: is missing");
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto tokens = people.refresh(*token, request.peer);
  if (!tokens) return std::unexpected(login_error(tokens.error(), people, "", request));
  return tokens_json(*tokens);
}

ApiResult<Json> logout(People& people, const http::Request& request) {
  const people::Principal& who = asker(request);
  if (who.session.empty()) return std::unexpected(ApiError{.message = "a key has no session to end"});
  if (const Status ended = people.end_session(who.session); !ended) return std::unexpected(people_error(ended.error()));
  return Json{{"message", "signed out"}};
}

ApiResult<Json> change_password(People& people, const http::Request& request) {
  const people::Principal& who = asker(request);
  if (who.kind != people::Principal::Kind::kUser) {
    return std::unexpected(
        ApiError{.status = 403, .message = "only who is signed in changes a password", .type = "permission_error"});
  }
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto old_password = fields.string("old_password"), new_password = fields.string("new_password");
  if (!old_password) fields.fault("old_password", "old_password: is missing");
  if (!new_password) fields.fault("new_password", "new_password: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const Status changed = people.change_password(who.user_id, *old_password, *new_password);
  if (!changed) return std::unexpected(people_error(changed.error()));
  const auto user = people.user(who.user_id);
  const auto tokens = user ? people.start_session(*user) : Result<people::Tokens>(std::unexpected(user.error()));
  if (!tokens) return std::unexpected(people_error(tokens.error()));
  return tokens_json(*tokens);
}

ApiResult<Json> setup(People& people, const http::Request& request) {
  if (const int64_t seconds = request.peer.empty() ? 0 : people.banned_seconds(request.peer); seconds > 0) {
    return std::unexpected(ApiError{.status = 429,
                                    .message = "too many failed attempts: try again later",
                                    .type = "rate_limit_error",
                                    .retry_after_s = static_cast<int32_t>(seconds)});
  }
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto token = fields.string("token"), name = fields.string("username"), password = fields.string("password");
  if (!token) fields.fault("token", "token: is missing");
  if (!name) fields.fault("username", "username: is missing");
  if (!password) fields.fault("password", "password: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto user = people.setup(*token, *name, *password);
  if (!user) {
    if (user.error().code == ErrorCode::kPermissionDenied) people.count_failure(request.peer, *token);
    note(people, request, printable(*name), "setup", std::to_string(people_error(user.error()).status));
    return std::unexpected(people_error(user.error()));
  }
  note(people, request, user->name, "setup", "ok");
  const auto tokens = people.start_session(*user);
  if (!tokens) return std::unexpected(people_error(tokens.error()));
  return tokens_json(*tokens);
}

// Who asks and what they may, for pages that show no more than that.
Json me_json(const PeopleRoutesOptions& options, const http::Request& request) {
  const bool auth = options.people != nullptr || options.has_keys;
  if (!request.principal)
    return {{"auth", auth}, {"kind", "anybody"}, {"scopes", {"admin"}}, {"models", Json::array()}};
  const people::Principal& who = *request.principal;
  using Kind = people::Principal::Kind;
  const char* kind = who.kind == Kind::kStaticKey ? "static_key" : who.kind == Kind::kApiKey ? "api_key" : "user";
  Json json = {{"auth", auth},
               {"kind", kind},
               {"name", who.name},
               {"role", role_name(who.role)},
               {"scopes", who.scopes.names()},
               {"models", who.models},
               {"must_change_password", who.must_change_password}};
  const auto user = options.people != nullptr && !who.user_id.empty() ? options.people->user(who.user_id)
                                                                      : Result<people::User>(not_found(""));
  if (user) json["user"] = user_json(*user);
  return json;
}

RouteFunction me(const PeopleRoutesOptions& options) {
  return [options](const ModelTable&, const http::Request& request, http::Reply& reply) {
    return send_json(reply, me_json(options, request));
  };
}

RouteFunction setup_status(const PeopleRoutesOptions& options) {
  return [options](const ModelTable&, const http::Request&, http::Reply& reply) {
    const bool users = options.people != nullptr;
    return send_json(reply, {{"auth", users || options.has_keys},
                             {"users", users},
                             {"needs_setup", users && options.people->needs_setup()},
                             {"oidc", options.oidc != nullptr}});
  };
}

RouteFunction cluster_auth(const PeopleRoutesOptions& options) {
  return
      [auth = options.people != nullptr || options.has_keys](
          const ModelTable&, const http::Request&, http::Reply& reply) { return send_json(reply, {{"auth", auth}}); };
}

}  // namespace

Routes session_routes(const PeopleRoutesOptions& options) {
  People* people = options.people;
  const PeopleWork sign_in = [oidc = options.oidc](People& known, const http::Request& request) {
    return login(known, oidc, request);
  };
  return {
      {"GET", "/v1/cluster/auth", cluster_auth(options), Access::kOpen},
      {"GET", "/v1/admin/setup/status", setup_status(options), Access::kOpen},
      {"POST", "/v1/admin/setup", people_route(people, setup), Access::kOpen},
      {"POST", "/token", people_route(people, sign_in), Access::kOpen},
      {"POST", "/v1/auth/refresh", people_route(people, refresh), Access::kOpen},
      needs(Scope::kSignedIn, {"POST", "/v1/auth/logout", people_route(people, logout)}),
      needs(Scope::kSignedIn, {"POST", "/v1/auth/password", people_route(people, change_password)}),
      needs(Scope::kSignedIn, {"GET", "/v1/auth/me", me(options)}),
  };
}

Routes people_routes(const PeopleRoutesOptions& options) {
  Routes all = session_routes(options);
  for (Routes part : {oidc_routes(options), user_routes(options.people), key_routes(options.people),
                      security_routes(options.people)}) {
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  return all;
}

}  // namespace quern
