// People: API keys.
#include <algorithm>

#include "base/status.h"
#include "platform/people/people.h"
#include "platform/people/people_rows.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

constexpr size_t kKeyBytes = 32, kHintLetters = 4, kPatternsMax = 100, kPatternMax = 200;
constexpr int64_t kQuotaMax = 1'000'000'000'000;

std::unexpected<Error> no_key(const std::string& id) {
  return not_found(fmt::format("key '{:.64}' does not exist", id));
}

bool is_printable(const std::string& text, size_t size_max) {
  return !text.empty() && text.size() <= size_max &&
         std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

Status check_quota(const char* name, int64_t value) {
  if (value >= 0 && value <= kQuotaMax) return {};
  return invalid_argument(fmt::format("{}: {} is outside 0 to {}", name, value, kQuotaMax));
}

}  // namespace

Status People::check_key(const ApiKey& key) const {
  if (!is_printable(key.name, 100)) return invalid_argument("name: must have 1 to 100 printable characters");
  if (key.models.size() > kPatternsMax) {
    return invalid_argument(fmt::format("models: more than {} patterns", kPatternsMax));
  }
  for (const std::string& pattern : key.models) {
    if (!is_printable(pattern, kPatternMax))
      return invalid_argument("models: a pattern is empty, too long or not printable");
  }
  if (key.scopes == ScopeSet()) return invalid_argument("scopes: must name at least one");
  if (key.expires != 0 && key.expires <= now()) return invalid_argument("expires: lies in the past");
  QUERN_TRY(check_quota("requests_per_minute", key.quotas.requests_per_minute));
  QUERN_TRY(check_quota("tokens_per_minute", key.quotas.tokens_per_minute));
  QUERN_TRY(check_quota("tokens_per_day", key.quotas.tokens_per_day));
  return check_quota("concurrent", key.quotas.concurrent);
}

std::vector<ApiKey> People::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<ApiKey> keys;
  for (const auto& [id, key] : keys_) keys.push_back(key);
  std::ranges::stable_sort(keys, {}, &ApiKey::created);
  return keys;
}

Result<ApiKey> People::key(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = keys_.find(id);
  if (found == keys_.end()) return no_key(id);
  return found->second;
}

Result<NewKey> People::add_key(ApiKey key) {
  const std::lock_guard lock(mutex_);
  QUERN_TRY(load_when_changed());
  QUERN_TRY(check_key(key));
  if (!users_.contains(key.owner)) return not_found(fmt::format("owner: user '{:.64}' does not exist", key.owner));
  if (keys_.size() >= kKeysMax) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("there are {} keys already", kKeysMax));
  }
  const std::string secret = kKeyPrefix + random_token(kKeyBytes);
  const std::string digest = sha256_hex(secret);
  key.id = "k-" + random_token(9);
  key.hint = secret.substr(0, std::string_view(kKeyPrefix).size() + kHintLetters) + "…";
  key.created = now();
  key.last_used = 0;
  QUERN_TRY(database_->run(fmt::format("INSERT INTO keys({}) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
                                       " ?13, ?14, ?15)",
                                       kKeyColumns),
                           values_of(key, digest)));
  key_ids_[digest] = key.id;
  keys_[key.id] = key;
  return NewKey{.key = key, .secret = secret};
}

Result<ApiKey> People::change_key(const std::string& id, const KeyChange& change) {
  const std::lock_guard lock(mutex_);
  const auto found = keys_.find(id);
  if (found == keys_.end()) return no_key(id);
  ApiKey key = found->second;
  if (change.scopes) {
    QUERN_ASSIGN(key.scopes, parse_scopes(*change.scopes));
  }
  key.name = change.name.value_or(key.name);
  key.models = change.models.value_or(key.models);
  key.expires = change.expires.value_or(key.expires);
  key.quotas = change.quotas.value_or(key.quotas);
  key.banned = change.banned.value_or(key.banned);
  // An expiry that stays may have passed: the key can be edited all the same.
  ApiKey checked = key;
  if (!change.expires) checked.expires = 0;
  QUERN_TRY(check_key(checked));
  QUERN_TRY(database_->run(
      "UPDATE keys SET name = ?2, scopes = ?3, models = ?4, expires = ?5, requests_per_minute = ?6,"
      " tokens_per_minute = ?7, tokens_per_day = ?8, concurrent = ?9, banned = ?10 WHERE id = ?1",
      {id, key.name, list_text(key.scopes.names()), list_text(key.models), key.expires, key.quotas.requests_per_minute,
       key.quotas.tokens_per_minute, key.quotas.tokens_per_day, key.quotas.concurrent, int64_t{key.banned}}));
  found->second = key;
  return key;
}

Status People::remove_key(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (keys_.erase(id) == 0) return no_key(id);
  std::erase_if(key_ids_, [&](const auto& item) { return item.second == id; });
  quotas_.forget(id);
  QUERN_TRY(database_->run("DELETE FROM keys WHERE id = ?1", {id}));
  return {};
}

}  // namespace quern::people
