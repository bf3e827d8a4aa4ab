// /v1/admin/keys: everybody's with keys:manage, one's own with keys:create.
#include "base/status.h"
#include "server/fields.h"
#include "server/people/people_json.h"
#include "server/people/routes.h"

namespace quern {
namespace {

using people::People;
using people::Scope;

constexpr size_t kScopesMax = 32, kPatternsMax = 100;
constexpr int64_t kFarFuture = 253402300799;  // the year 9999

bool manages(const http::Request& request) {
  return asker(request).scopes.has(Scope::kKeysManage);
}

std::unexpected<ApiError> not_yours(std::string message, std::string param = "") {
  return std::unexpected(ApiError{.status = 403,
                                  .message = std::move(message),
                                  .type = "permission_error",
                                  .param = std::move(param),
                                  .code = "insufficient_scope"});
}

ApiResult<Json> list_keys(People& people, const http::Request& request) {
  Json data = Json::array();
  for (const people::ApiKey& key : people.keys()) {
    if (manages(request) || key.owner == asker(request).user_id) data.push_back(key_json(people, key));
  }
  return Json{{"object", "list"}, {"data", std::move(data)}};
}

// Another's key is, to who may not manage it, no key at all.
ApiResult<people::ApiKey> find_key(People& people, const http::Request& request) {
  auto key = people.key(request.params[0]);
  if (key && !manages(request) && key->owner != asker(request).user_id) {
    return std::unexpected(
        ApiError{.status = 404, .message = fmt::format("key '{:.64}' does not exist", request.params[0])});
  }
  if (!key) return std::unexpected(people_error(key.error()));
  return std::move(*key);
}

people::Quotas read_quotas(Fields& fields, people::Quotas quotas) {
  const Json* object = fields.object("quotas");
  if (object == nullptr) return quotas;
  Fields inner(*object);
  const auto read = [&](const char* name, int64_t& value) {
    value = inner.integer(name, 0, 1'000'000'000'000).value_or(value);
  };
  read("requests_per_minute", quotas.requests_per_minute);
  read("tokens_per_minute", quotas.tokens_per_minute);
  read("tokens_per_day", quotas.tokens_per_day);
  read("concurrent", quotas.concurrent);
  inner.refuse_unknown();
  if (!inner.ok()) fields.fault("quotas", "quotas: " + inner.take_error().message);
  return quotas;
}

// Nobody gives away more than he has: the scopes are cut when the key is used, and refused here, by name.
ApiResult<void> check_gift(const http::Request& request, const people::KeyChange& change) {
  const people::Principal& who = asker(request);
  if (change.scopes) {
    const auto scopes = people::parse_scopes(*change.scopes);
    if (!scopes) return std::unexpected(people_error(scopes.error()));
    if (!(scopes->both(who.scopes) == *scopes)) return not_yours("scopes: more than you have yourself", "scopes");
  }
  if (change.models && !who.all_models())
    return not_yours("models: a key for certain models makes no others", "models");
  return {};
}

ApiResult<people::KeyChange> read_change(Fields& fields, const people::Quotas& quotas) {
  people::KeyChange change;
  change.name = fields.string("name");
  change.scopes = fields.string_or_strings("scopes", kScopesMax);
  change.models = fields.string_or_strings("models", kPatternsMax);
  change.expires = fields.integer("expires", 0, kFarFuture);
  change.quotas = read_quotas(fields, quotas);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  return change;
}

ApiResult<Json> add_key(People& people, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto owner_name = fields.string("owner");
  auto change = read_change(fields, {});
  if (!change) return std::unexpected(change.error());
  if (!change->scopes) change->scopes = std::vector<std::string>{"models:list", "models:read"};
  if (!change->name) return bad_field("name", "name: is missing");
  // A key that is limited would make itself an unlimited sister.
  const people::Principal& who = asker(request);
  if (who.kind == people::Principal::Kind::kApiKey && !manages(request)) {
    return not_yours("an API key makes no keys; sign in");
  }
  if (const auto allowed = check_gift(request, *change); !allowed) return std::unexpected(allowed.error());
  people::ApiKey key{.name = *change->name,
                     .models = change->models.value_or(std::vector<std::string>()),
                     .expires = change->expires.value_or(0),
                     .quotas = *change->quotas};
  const auto scopes = people::parse_scopes(*change->scopes);
  if (!scopes) return std::unexpected(people_error(scopes.error()));
  key.scopes = *scopes;
  key.owner = who.user_id;
  if (owner_name || key.owner.empty()) {
    if (!owner_name) return bad_field("owner", "owner: is missing; a static key is nobody's");
    const auto owner = people.user(*owner_name);
    if (!owner) return std::unexpected(people_error(owner.error()));
    if (owner->id != key.owner && !manages(request))
      return not_yours("owner: keys:manage is needed for another's", "owner");
    key.owner = owner->id;
  }
  const auto made = people.add_key(std::move(key));
  if (!made) return std::unexpected(people_error(made.error()));
  Json json = key_json(people, made->key);
  json["key"] = made->secret;
  return json;
}

ApiResult<Json> key_answer(People& people, const Result<people::ApiKey>& key) {
  if (!key) return std::unexpected(people_error(key.error()));
  return key_json(people, *key);
}

ApiResult<Json> show_key(People& people, const http::Request& request) {
  const auto key = find_key(people, request);
  if (!key) return std::unexpected(key.error());
  return key_json(people, *key);
}

ApiResult<Json> change_key(People& people, const http::Request& request) {
  const auto key = find_key(people, request);
  if (!key) return std::unexpected(key.error());
  if (asker(request).kind == people::Principal::Kind::kApiKey && !manages(request)) {
    return not_yours("an API key changes no keys; sign in");
  }
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto change = read_change(fields, key->quotas);
  if (!change) return std::unexpected(change.error());
  if (const auto allowed = check_gift(request, *change); !allowed) return std::unexpected(allowed.error());
  return key_answer(people, people.change_key(key->id, *change));
}

ApiResult<Json> remove_key(People& people, const http::Request& request) {
  const auto key = find_key(people, request);
  if (!key) return std::unexpected(key.error());
  if (const Status removed = people.remove_key(key->id); !removed)
    return std::unexpected(people_error(removed.error()));
  return Json{{"id", key->id}, {"deleted", true}};
}

PeopleWork set_banned(bool banned) {
  return [banned](People& people, const http::Request& request) {
    return key_answer(people, people.change_key(request.params[0], {.banned = banned}));
  };
}

}  // namespace

Routes key_routes(People* people) {
  const auto route = [people](Scope scope, const char* method, const char* path, PeopleWork work) {
    return needs(scope, {method, path, people_route(people, std::move(work))});
  };
  return {
      route(Scope::kKeysCreate, "GET", "/v1/admin/keys", list_keys),
      route(Scope::kKeysCreate, "POST", "/v1/admin/keys", add_key),
      route(Scope::kKeysCreate, "GET", "/v1/admin/keys/{key}", show_key),
      route(Scope::kKeysCreate, "PATCH", "/v1/admin/keys/{key}", change_key),
      route(Scope::kKeysCreate, "DELETE", "/v1/admin/keys/{key}", remove_key),
      route(Scope::kKeysManage, "POST", "/v1/admin/keys/{key}/ban", set_banned(true)),
      route(Scope::kKeysManage, "POST", "/v1/admin/keys/{key}/unban", set_banned(false)),
  };
}

}  // namespace quern
