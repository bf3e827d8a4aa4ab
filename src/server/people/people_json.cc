#include "server/people/people_json.h"

#include "base/check.h"
#include "base/status.h"
#include "server/offload.h"

namespace quern {
namespace {

using http::asio::awaitable;

ApiError people_off() {
  return {.status = 404, .message = "this server knows no users: start it with --auth on", .code = "auth_off"};
}

Json seconds_or_null(int64_t seconds) {
  return seconds == 0 ? Json(nullptr) : Json(seconds);
}

awaitable<void> run(people::People* people, const PeopleWork& work, const http::Request& request, http::Reply& reply) {
  if (people == nullptr) co_return co_await send_error(reply, people_off());
  const std::function<ApiResult<Json>()> job = [&] { return work(*people, request); };
  const ApiResult<Json> answer = co_await offload(job);
  if (!answer) co_return co_await send_error(reply, answer.error());
  co_await send_json(reply, *answer);
}

}  // namespace

RouteFunction people_route(people::People* people, PeopleWork work) {
  return [people, work = std::move(work)](const ModelTable&, const http::Request& request, http::Reply& reply) {
    return run(people, work, request, reply);
  };
}

ApiError people_error(const Error& error) {
  ApiError result = to_api_error(error);
  const size_t colon = error.message.find(": ");
  const bool names_field = result.status == 400 && colon != std::string::npos &&
                           error.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == colon;
  if (names_field) result.param = error.message.substr(0, colon);
  return result;
}

Json user_json(const people::User& user) {
  return {{"id", user.id},
          {"username", user.name},
          {"role", role_name(user.role)},
          {"disabled", user.disabled},
          {"must_change_password", user.must_change_password},
          {"has_password", user.has_password},
          {"oidc", !user.subject.empty()},
          {"scopes", scopes_of(user.role).names()},
          {"created", user.created},
          {"last_login", seconds_or_null(user.last_login)}};
}

Json key_json(const people::People& people, const people::ApiKey& key) {
  const auto owner = people.user(key.owner);
  const people::Usage usage = people.usage(key.id);
  return {{"id", key.id},
          {"name", key.name},
          {"owner", owner ? Json(owner->name) : Json(nullptr)},
          {"hint", key.hint},
          {"scopes", key.scopes.names()},
          {"models", key.models},
          {"expires", seconds_or_null(key.expires)},
          {"quotas",
           {{"requests_per_minute", key.quotas.requests_per_minute},
            {"tokens_per_minute", key.quotas.tokens_per_minute},
            {"tokens_per_day", key.quotas.tokens_per_day},
            {"concurrent", key.quotas.concurrent}}},
          {"banned", key.banned},
          {"created", key.created},
          {"last_used", seconds_or_null(key.last_used)},
          {"today", {{"requests", usage.requests}, {"tokens", usage.tokens}}}};
}

Json tokens_json(const people::Tokens& tokens) {
  return {{"access_token", tokens.access},
          {"refresh_token", tokens.refresh},
          {"token_type", "bearer"},
          {"expires_in", tokens.access_seconds},
          {"refresh_expires_in", tokens.refresh_seconds},
          {"must_change_password", tokens.user.must_change_password},
          {"user", user_json(tokens.user)}};
}

ApiResult<Json> object_body(const http::Request& request) {
  auto body = parse_body(request);
  if (body && !body->is_object()) {
    return std::unexpected(ApiError{.message = "the request body must be a JSON object"});
  }
  return body;
}

const people::Principal& asker(const http::Request& request) {
  QUERN_CHECK(request.principal != nullptr);
  return *request.principal;
}

}  // namespace quern
