// People: users and the first admin.
#include <algorithm>

#include "base/status.h"
#include "platform/people/people.h"
#include "platform/people/people_rows.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

std::unexpected<Error> no_user(const std::string& name) {
  return not_found(fmt::format("user '{:.64}' does not exist", name));
}

bool is_name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("._@+-").find(c) != std::string_view::npos;
}

Status check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_name_letter)) return {};
  return invalid_argument("username: must be 1 to 64 letters, digits or . _ @ + -");
}

}  // namespace

const People::StoredUser* People::find_user(const std::string& name_or_id) const {
  const auto by_id = users_.find(name_or_id);
  if (by_id != users_.end()) return &by_id->second;
  const auto by_name = user_ids_.find(lower_case(name_or_id));
  return by_name == user_ids_.end() ? nullptr : &users_.at(by_name->second);
}

// Whether an admin would be left without `id`.
bool People::has_admin_but(const std::string& id) const {
  return std::ranges::any_of(users_, [&](const auto& item) {
    const User& user = item.second.user;
    return user.role == Role::kAdmin && !user.disabled && user.id != id && (user.has_password || !user.subject.empty());
  });
}

bool People::needs_setup() const {
  const std::lock_guard lock(mutex_);
  return !has_admin_but("");
}

Result<std::string> People::make_setup_token() {
  const std::lock_guard lock(mutex_);
  if (has_admin_but("")) return denied("there is an admin already");
  std::string token = random_token(32);
  const std::string kept = fmt::format("{} {}", now() + kSetupSeconds, sha256_hex(token));
  QUERN_TRY(database_->run("INSERT OR REPLACE INTO settings(name, value) VALUES('setup', ?1)", {kept}));
  return token;
}

Status People::setup_token_fits(const std::string& token) {
  QUERN_ASSIGN(const auto rows, database_->run("SELECT value FROM settings WHERE name = 'setup'"));
  const std::string kept = rows.empty() ? "" : text_of(rows[0][0]);
  const size_t space = kept.find(' ');
  const bool fits = space != std::string::npos && equal_secrets(kept.substr(space + 1), sha256_hex(token)) &&
                    std::atoll(kept.c_str()) > now();
  if (has_admin_but("") || !fits) return denied("token: the link is used up, too old or was never given out");
  return {};
}

Result<User> People::setup(const std::string& token, const std::string& name, const std::string& password) {
  QUERN_TRY(check_name(name));
  {
    const std::lock_guard lock(mutex_);
    QUERN_TRY(load_when_changed());
    QUERN_TRY(setup_token_fits(token));
  }
  QUERN_ASSIGN(const std::string hash, hash_bounded(password));
  const std::lock_guard lock(mutex_);
  QUERN_TRY(setup_token_fits(token));  // somebody may have been faster
  QUERN_ASSIGN(User user, insert_user({.name = name, .role = Role::kAdmin}, hash));
  QUERN_TRY(database_->run("DELETE FROM settings WHERE name = 'setup'"));
  return user;
}

std::vector<User> People::users() const {
  const std::lock_guard lock(mutex_);
  std::vector<User> users;
  for (const auto& [name, id] : user_ids_) users.push_back(users_.at(id).user);
  return users;
}

Result<User> People::user(const std::string& name_or_id) const {
  const std::lock_guard lock(mutex_);
  const StoredUser* found = find_user(name_or_id);
  if (found == nullptr) return no_user(name_or_id);
  return found->user;
}

Result<User> People::insert_user(User user, const std::string& password) {
  if (user_ids_.contains(lower_case(user.name))) {
    return invalid_argument(fmt::format("username: '{}' is taken", user.name));
  }
  if (users_.size() >= kUsersMax) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("there are {} users already", kUsersMax));
  }
  user.id = "u-" + random_token(9);
  user.created = now();
  user.has_password = !password.empty();
  QUERN_TRY(
      database_->run(fmt::format("INSERT INTO users({}) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", kUserColumns),
                     values_of(user, password)));
  user_ids_[lower_case(user.name)] = user.id;
  users_[user.id] = {user, password};
  return user;
}

Result<User> People::add_user(const std::string& name, Role role, const std::string& password, bool must_change) {
  QUERN_TRY(check_name(name));
  std::string hash;
  if (!password.empty()) {
    QUERN_ASSIGN(hash, hash_bounded(password));
  }
  const std::lock_guard lock(mutex_);
  QUERN_TRY(load_when_changed());
  return insert_user({.name = name, .role = role, .must_change_password = must_change}, hash);
}

Result<User> People::change_user(const std::string& id, const UserChange& change) {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find(id);
  if (found == users_.end()) return no_user(id);
  User changed = found->second.user;
  changed.role = change.role.value_or(changed.role);
  changed.disabled = change.disabled.value_or(changed.disabled);
  const bool stays_admin = changed.role == Role::kAdmin && !changed.disabled;
  const bool was_admin = found->second.user.role == Role::kAdmin && !found->second.user.disabled;
  if (was_admin && !stays_admin && !has_admin_but(id)) return denied("the last admin stays an admin");
  QUERN_TRY(database_->run("UPDATE users SET role = ?2, disabled = ?3 WHERE id = ?1",
                           {id, std::string(role_name(changed.role)), int64_t{changed.disabled}}));
  found->second.user = changed;
  if (changed.disabled) QUERN_TRY(end_sessions_of(id));
  return changed;
}

Status People::remove_user(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find(id);
  if (found == users_.end()) return no_user(id);
  if (found->second.user.role == Role::kAdmin && !has_admin_but(id)) return denied("the last admin stays");
  QUERN_TRY(database_->run("DELETE FROM users WHERE id = ?1", {id}));
  return load();  // his keys and sessions went with him
}

Status People::store_password(const std::string& id, const std::string& hash, bool must_change) {
  const auto found = users_.find(id);
  if (found == users_.end()) return no_user(id);
  QUERN_TRY(database_->run("UPDATE users SET password = ?2, must_change = ?3 WHERE id = ?1",
                           {id, hash, int64_t{must_change}}));
  found->second.password = hash;
  found->second.user.has_password = true;
  found->second.user.must_change_password = must_change;
  subjects_.forget(user_subject(found->second.user.name));
  return end_sessions_of(id);
}

Status People::set_password(const std::string& id, const std::string& password, bool must_change) {
  QUERN_ASSIGN(const std::string hash, hash_bounded(password));
  const std::lock_guard lock(mutex_);
  return store_password(id, hash, must_change);
}

Status People::change_password(const std::string& id, const std::string& old_password,
                               const std::string& new_password) {
  std::string kept, subject;
  {
    const std::lock_guard lock(mutex_);
    const StoredUser* found = find_user(id);
    if (found == nullptr) return no_user(id);
    kept = found->password;
    subject = user_subject(found->user.name);
    if (subjects_.banned_until(subject, now()) > 0) {
      return make_error(ErrorCode::kResourceExhausted, "too many wrong passwords: try again later");
    }
  }
  QUERN_ASSIGN(const bool fits, verify_bounded(old_password, kept));
  if (!fits) {
    const std::lock_guard lock(mutex_);
    subjects_.count(subject, now());
    return denied("old_password: is wrong");
  }
  if (old_password == new_password) return invalid_argument("new_password: is the old one");
  return set_password(id, new_password);
}

Result<User> People::oidc_user(const std::string& subject, const std::string& name, Role role) {
  const std::lock_guard lock(mutex_);
  QUERN_TRY(load_when_changed());
  for (auto& [id, stored] : users_) {
    if (stored.user.subject != subject) continue;
    if (stored.user.disabled) return denied("the user is disabled");
    QUERN_TRY(database_->run("UPDATE users SET role = ?2 WHERE id = ?1", {id, std::string(role_name(role))}));
    stored.user.role = role;
    return stored.user;
  }
  std::string wished;
  for (const char c : name.substr(0, 56)) wished += is_name_letter(c) ? c : '-';
  if (wished.empty()) wished = "oidc";
  std::string free = wished;
  for (int i = 2; user_ids_.contains(lower_case(free)); ++i) free = fmt::format("{}-{}", wished, i);
  return insert_user({.name = free, .role = role, .subject = subject}, "");
}

}  // namespace quern::people
