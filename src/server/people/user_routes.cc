// /v1/admin/users.
#include "base/status.h"
#include "server/fields.h"
#include "server/people/people_json.h"
#include "server/people/routes.h"

namespace quern {
namespace {

using people::People;
using people::Scope;

ApiResult<Json> list_users(People& people, const http::Request&) {
  Json data = Json::array();
  for (const people::User& user : people.users()) data.push_back(user_json(user));
  return Json{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> user_answer(const Result<people::User>& user) {
  if (!user) return std::unexpected(people_error(user.error()));
  return user_json(*user);
}

ApiResult<Json> show_user(People& people, const http::Request& request) {
  return user_answer(people.user(request.params[0]));
}

// A role in a body; absent: nothing.
std::optional<people::Role> role_in(Fields& fields) {
  const auto name = fields.string("role");
  if (!name) return std::nullopt;
  const auto role = people::parse_role(*name);
  if (!role) fields.fault("role", role.error().message);
  return role ? std::optional(*role) : std::nullopt;
}

ApiResult<Json> add_user(People& people, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto name = fields.string("username"), password = fields.string("password");
  const people::Role role = role_in(fields).value_or(people::Role::kUser);
  const bool must_change = fields.boolean("must_change_password").value_or(true);
  if (!name) fields.fault("username", "username: is missing");
  if (!password || password->empty()) fields.fault("password", "password: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  return user_answer(people.add_user(*name, role, *password, must_change));
}

ApiResult<Json> change_user(People& people, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const people::UserChange change{.role = role_in(fields), .disabled = fields.boolean("disabled")};
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto user = people.user(request.params[0]);
  if (!user) return std::unexpected(people_error(user.error()));
  return user_answer(people.change_user(user->id, change));
}

ApiResult<Json> set_password(People& people, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto password = fields.string("password");
  const bool must_change = fields.boolean("must_change_password").value_or(true);
  if (!password) fields.fault("password", "password: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto user = people.user(request.params[0]);
  if (!user) return std::unexpected(people_error(user.error()));
  const Status set = people.set_password(user->id, *password, must_change);
  if (!set) return std::unexpected(people_error(set.error()));
  return user_answer(people.user(user->id));
}

ApiResult<Json> remove_user(People& people, const http::Request& request) {
  const auto user = people.user(request.params[0]);
  if (!user) return std::unexpected(people_error(user.error()));
  if (const Status removed = people.remove_user(user->id); !removed) {
    return std::unexpected(people_error(removed.error()));
  }
  return Json{{"id", user->id}, {"deleted", true}};
}

}  // namespace

Routes user_routes(People* people) {
  const auto route = [people](const char* method, const char* path, PeopleWork work) {
    return needs(Scope::kUsersManage, {method, path, people_route(people, std::move(work))});
  };
  return {
      route("GET", "/v1/admin/users", list_users),
      route("POST", "/v1/admin/users", add_user),
      route("GET", "/v1/admin/users/{user}", show_user),
      route("PATCH", "/v1/admin/users/{user}", change_user),
      route("DELETE", "/v1/admin/users/{user}", remove_user),
      route("POST", "/v1/admin/users/{user}/password", set_password),
  };
}

}  // namespace quern
