#include "platform/people/people_rows.h"

#include <algorithm>

#include "base/json.h"
#include "base/status.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

Result<std::vector<std::string>> list_of(const std::string& text) {
  const auto json = parse_json(text, "people.db");
  if (!json || !json->is_array()) return invalid_file("people.db: a list is broken");
  std::vector<std::string> list;
  for (const Json& item : *json) {
    if (!item.is_string()) return invalid_file("people.db: a list is broken");
    list.push_back(item.get<std::string>());
  }
  return list;
}

}  // namespace

std::string list_text(const std::vector<std::string>& list) {
  return dump_json(Json(list));
}

Result<User> user_of_row(const Database::Row& row) {
  QUERN_ASSIGN(const Role role, parse_role(text_of(row[2])));
  return User{.id = text_of(row[0]),
              .name = text_of(row[1]),
              .role = role,
              .disabled = integer_of(row[5]) != 0,
              .must_change_password = integer_of(row[6]) != 0,
              .has_password = !text_of(row[kUserPasswordColumn]).empty(),
              .subject = text_of(row[4]),
              .created = integer_of(row[7]),
              .last_login = integer_of(row[8])};
}

Result<ApiKey> key_of_row(const Database::Row& row) {
  ApiKey key{.id = text_of(row[0]), .name = text_of(row[1]), .owner = text_of(row[2]), .hint = text_of(row[4])};
  QUERN_ASSIGN(const auto scopes, list_of(text_of(row[5])));
  QUERN_ASSIGN(key.scopes, parse_scopes(scopes));
  QUERN_ASSIGN(key.models, list_of(text_of(row[6])));
  key.expires = integer_of(row[7]);
  key.quotas = {.requests_per_minute = integer_of(row[8]),
                .tokens_per_minute = integer_of(row[9]),
                .tokens_per_day = integer_of(row[10]),
                .concurrent = integer_of(row[11])};
  key.banned = integer_of(row[12]) != 0;
  key.created = integer_of(row[13]);
  key.last_used = integer_of(row[14]);
  return key;
}

std::vector<Database::Value> values_of(const User& user, const std::string& password) {
  return {user.id,
          user.name,
          std::string(role_name(user.role)),
          password,
          user.subject,
          int64_t{user.disabled},
          int64_t{user.must_change_password},
          user.created,
          user.last_login};
}

std::vector<Database::Value> values_of(const ApiKey& key, const std::string& digest) {
  return {key.id,
          key.name,
          key.owner,
          digest,
          key.hint,
          list_text(key.scopes.names()),
          list_text(key.models),
          key.expires,
          key.quotas.requests_per_minute,
          key.quotas.tokens_per_minute,
          key.quotas.tokens_per_day,
          key.quotas.concurrent,
          int64_t{key.banned},
          key.created,
          key.last_used};
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  return text;
}

std::string key_subject(const std::string& credential) {
  return "key:" + sha256_hex(credential).substr(0, 16);
}

std::string user_subject(const std::string& name) {
  return "user:" + lower_case(name).substr(0, 64);
}

}  // namespace quern::people
