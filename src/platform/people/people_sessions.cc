// People: signing in, sessions, and what a presented credential is.
#include <algorithm>

#include "base/status.h"
#include "platform/people/addresses.h"
#include "platform/people/jwt.h"
#include "platform/people/people.h"
#include "platform/people/people_rows.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

constexpr const char* kIssuer = "quern";

Identified stale(std::string reason) {
  return {.kind = Identified::Kind::kStale, .reason = std::move(reason)};
}

}  // namespace

Tokens People::tokens_of(const User& user, const std::string& session, const std::string& refresh) const {
  const Json claims = {
      {"iss", kIssuer}, {"sub", user.id}, {"sid", session}, {"iat", now()}, {"exp", now() + kAccessSeconds},
      {"typ", "access"}};
  return {.access = sign_token(claims, secret_),
          .refresh = session + "." + refresh,
          .access_seconds = kAccessSeconds,
          .refresh_seconds = kRefreshSeconds,
          .user = user};
}

Result<Tokens> People::open_session(const User& user) {
  std::vector<const Session*> of_user;
  for (const auto& [id, session] : sessions_) {
    if (session.user == user.id) of_user.push_back(&session);
  }
  if (of_user.size() >= kSessionsOfUserMax) {
    const std::string oldest = (*std::ranges::min_element(of_user, {}, &Session::expires))->id;
    QUERN_TRY(database_->run("DELETE FROM sessions WHERE id = ?1", {oldest}));
    sessions_.erase(oldest);
  }
  if (sessions_.size() >= kSessionsMax) {
    return make_error(ErrorCode::kResourceExhausted, "too many are signed in: try again later");
  }
  const std::string refresh = random_token(32);
  const Session session{
      .id = random_token(12), .user = user.id, .digest = sha256_hex(refresh), .expires = now() + kRefreshSeconds};
  QUERN_TRY(database_->run("INSERT INTO sessions(id, user, digest, expires) VALUES(?1, ?2, ?3, ?4)",
                           {session.id, session.user, session.digest, session.expires}));
  QUERN_TRY(database_->run("UPDATE users SET last_login = ?2 WHERE id = ?1", {user.id, now()}));
  users_.at(user.id).user.last_login = now();
  sessions_[session.id] = session;
  return tokens_of(users_.at(user.id).user, session.id, refresh);
}

Result<Tokens> People::login(const std::string& name, const std::string& password, const std::string& address) {
  const std::string subject = user_subject(name), group = address_group(address);
  std::string id, stored = dummy_hash_;
  {
    const std::lock_guard lock(mutex_);
    QUERN_TRY(load_when_changed());
    if (subjects_.banned_until(subject, now()) > 0 || addresses_.banned_until(group, now()) > 0) {
      return make_error(ErrorCode::kResourceExhausted, "too many failed attempts: try again later");
    }
    const StoredUser* found = find_user(name);
    if (found != nullptr && found->user.has_password) {
      id = found->user.id;
      stored = found->password;
    }
  }
  QUERN_ASSIGN(const bool fits, verify_bounded(password, stored));
  const std::lock_guard lock(mutex_);
  const StoredUser* found = id.empty() ? nullptr : find_user(id);
  // Looked at again: many guesses may have been under way when the ban came.
  if (subjects_.banned_until(subject, now()) > 0) {
    return make_error(ErrorCode::kResourceExhausted, "too many failed attempts: try again later");
  }
  if (!fits || found == nullptr || found->user.disabled) {
    subjects_.count(subject, now());
    if (!address.empty()) addresses_.count(group, now());
    return denied("wrong user name or password");
  }
  subjects_.forget(subject);
  return open_session(found->user);
}

Result<Tokens> People::start_session(const User& user) {
  const std::lock_guard lock(mutex_);
  const StoredUser* found = find_user(user.id);
  if (found == nullptr || found->user.disabled) return denied("the user is disabled");
  return open_session(found->user);
}

Result<Tokens> People::refresh(const std::string& token, const std::string& address) {
  const std::lock_guard lock(mutex_);
  QUERN_TRY(load_when_changed());
  const size_t dot = token.find('.');
  const auto found = dot == std::string::npos ? sessions_.end() : sessions_.find(token.substr(0, dot));
  if (found == sessions_.end() || found->second.expires <= now()) {
    return denied("refresh_token: is not valid; sign in again");
  }
  Session& session = found->second;
  const StoredUser* user = find_user(session.user);
  if (user == nullptr || user->user.disabled) return denied("refresh_token: its user is disabled");
  const std::string presented = token.substr(dot + 1);
  if (!equal_secrets(sha256_hex(presented), session.digest)) {
    // Used before, by its owner or by a thief: nobody can tell, so both are out (RFC 9700, section 4.14.2).
    const AuditLine line{.time = now(),
                         .who = user->user.name,
                         .action = "refresh token came back",
                         .target = session.id,
                         .address = address,
                         .outcome = "session ended"};
    QUERN_TRY(database_->run("DELETE FROM sessions WHERE id = ?1", {session.id}));
    sessions_.erase(found);
    QUERN_TRY(audit_.add(line));
    return denied("refresh_token: was used before; the session has ended, sign in again");
  }
  const std::string next = random_token(32);
  QUERN_TRY(database_->run("UPDATE sessions SET digest = ?2, expires = ?3 WHERE id = ?1",
                           {session.id, sha256_hex(next), now() + kRefreshSeconds}));
  session.digest = sha256_hex(next);
  session.expires = now() + kRefreshSeconds;
  return tokens_of(user->user, session.id, next);
}

Status People::end_session(const std::string& session) {
  const std::lock_guard lock(mutex_);
  QUERN_TRY(database_->run("DELETE FROM sessions WHERE id = ?1", {session}));
  sessions_.erase(session);
  return {};
}

Status People::end_sessions_of(const std::string& user) {
  QUERN_TRY(database_->run("DELETE FROM sessions WHERE user = ?1", {user}));
  std::erase_if(sessions_, [&](const auto& item) { return item.second.user == user; });
  return {};
}

Identified People::identify(const std::string& credential) {
  const std::lock_guard lock(mutex_);
  const int64_t until = subjects_.banned_until(key_subject(credential), now());
  if (until > 0) {
    return {
        .kind = Identified::Kind::kBanned, .reason = "this key was refused too often", .retry_after_s = until - now()};
  }
  if (const Status status = load_when_changed(); !status) return stale("users cannot be read now");
  return credential.starts_with(kKeyPrefix) ? identify_key(credential) : identify_token(credential);
}

Identified People::identify_key(const std::string& secret) {
  const auto found = key_ids_.find(sha256_hex(secret));
  if (found == key_ids_.end()) return {.reason = "the API key is not valid"};
  ApiKey& key = keys_.at(found->second);
  const StoredUser* owner = find_user(key.owner);
  if (owner == nullptr || owner->user.disabled) return stale("the API key's owner is disabled");
  if (key.banned) return stale("the API key is banned");
  if (key.expires != 0 && key.expires <= now()) return stale("the API key has expired");
  key.last_used = now();
  Principal principal{.kind = Principal::Kind::kApiKey,
                      .id = key.id,
                      .name = owner->user.name + "/" + key.name,
                      .user_id = owner->user.id,
                      .role = owner->user.role,
                      .scopes = key.scopes.both(scopes_of(owner->user.role)),
                      .models = key.models,
                      .expires = key.expires};
  return {.kind = Identified::Kind::kKnown, .principal = std::move(principal), .quotas = key.quotas};
}

Identified People::identify_token(const std::string& token) {
  const auto claims = verify_token(token, secret_, now());
  if (!claims && claims.error().code == ErrorCode::kDeadlineExceeded) return stale("the token has expired");
  if (!claims || text_claim(*claims, "typ") != "access" || text_claim(*claims, "iss") != kIssuer) {
    return {.reason = "the API key or token is not valid"};
  }
  const auto session = sessions_.find(text_claim(*claims, "sid"));
  const StoredUser* user = find_user(text_claim(*claims, "sub"));
  if (user == nullptr || user->user.disabled) return stale("the user is disabled");
  if (session == sessions_.end() || session->second.user != user->user.id) return stale("the session has ended");
  Principal principal{.kind = Principal::Kind::kUser,
                      .id = user->user.id,
                      .name = user->user.name,
                      .user_id = user->user.id,
                      .session = session->second.id,
                      .role = user->user.role,
                      .scopes = scopes_of(user->user.role),
                      .expires = time_claim(*claims, "exp", 0),
                      .must_change_password = user->user.must_change_password};
  return {.kind = Identified::Kind::kKnown, .principal = std::move(principal)};
}

}  // namespace quern::people
