// Rows of people.db and the values they hold. Internal to platform/people.
#pragma once

#include <string>

#include "platform/people/people.h"

namespace quern::people {

inline constexpr const char* kUserColumns =
    "id, name, role, password, subject, disabled, must_change, created, last_login";
inline constexpr size_t kUserPasswordColumn = 3;
inline constexpr const char* kKeyColumns =
    "id, name, owner, digest, hint, scopes, models, expires, requests_per_minute, tokens_per_minute, tokens_per_day,"
    " concurrent, banned, created, last_used";
inline constexpr size_t kKeyDigestColumn = 3;

// Errors: kInvalidFile: the database was written by something else.
Result<User> user_of_row(const Database::Row& row);
Result<ApiKey> key_of_row(const Database::Row& row);
std::vector<Database::Value> values_of(const User& user, const std::string& password);  // in kUserColumns' order
std::vector<Database::Value> values_of(const ApiKey& key, const std::string& digest);   // in kKeyColumns' order
std::string list_text(const std::vector<std::string>& list);                            // as the columns hold it

std::string lower_case(std::string text);                // ASCII
std::string key_subject(const std::string& credential);  // "key:0123abcd…": what its failures are counted under
std::string user_subject(const std::string& name);       // "user:name"

inline std::unexpected<Error> denied(std::string message) {
  return make_error(ErrorCode::kPermissionDenied, std::move(message));
}

}  // namespace quern::people
