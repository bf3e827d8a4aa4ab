// Users, API keys, sign-ins, bans, quotas and the audit log: the door of this folder.
//
// State is a database of its own (people.db) and a signing secret (people.key) in one folder, both for their owner
// only. Passwords are kept as scrypt hashes, keys and refresh tokens as SHA-256: what is read from the disk opens
// nothing. All users and keys are in memory too, bounded; what another process changes (`quern user …`) is seen within
// a second. Thread-safe; calls that hash a password take some 0.2 s.
//
// Errors everywhere: kInvalidArgument naming the field, kNotFound, kPermissionDenied, kResourceExhausted, kIo.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/database.h"
#include "platform/people/audit.h"
#include "platform/people/failures.h"
#include "platform/people/quotas.h"
#include "platform/people/scopes.h"

namespace quern::people {

struct User {
  std::string id;
  std::string name;  // unique, case aside: 1 to 64 of A-Z a-z 0-9 . _ @ + -
  Role role = Role::kUser;
  bool disabled = false;
  bool must_change_password = false;
  bool has_password = false;
  std::string subject;  // "ISSUER SUBJECT" of one who comes by OIDC
  int64_t created = 0, last_login = 0;
};

struct UserChange {  // what is absent stays
  std::optional<Role> role;
  std::optional<bool> disabled;
};

struct ApiKey {
  std::string id;
  std::string name;   // 1 to 100 printable characters; need not be unique
  std::string owner;  // user's id
  std::string hint;   // "qk-AbCd…"
  ScopeSet scopes;
  std::vector<std::string> models;  // patterns; empty: all
  int64_t expires = 0;              // seconds since 1970; 0: never
  Quotas quotas;
  bool banned = false;
  int64_t created = 0, last_used = 0;
};

struct KeyChange {
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> scopes, models;
  std::optional<int64_t> expires;
  std::optional<Quotas> quotas;
  std::optional<bool> banned;
};

struct NewKey {
  ApiKey key;
  std::string secret;  // shown once: it is not kept
};

struct Tokens {
  std::string access, refresh;
  int64_t access_seconds = 0, refresh_seconds = 0;
  User user;
};

inline constexpr const char* kKeyPrefix = "qk-";
inline constexpr int64_t kAccessSeconds = 30 * 60;
inline constexpr int64_t kRefreshSeconds = 7 * 86400;
inline constexpr int64_t kSetupSeconds = 86400;
inline constexpr size_t kUsersMax = 10'000, kKeysMax = 20'000, kSessionsMax = 20'000, kSessionsOfUserMax = 32;

// What a presented key or token turned out to be.
struct Identified {
  enum class Kind : uint8_t {
    kKnown,
    kStale,    // was good: expired, banned, its user disabled. Not held against the address
    kBanned,   // presented too often while it was not good
    kUnknown,  // never was
  };
  Kind kind = Kind::kUnknown;
  Principal principal;        // kKnown
  Quotas quotas;              // kKnown, of a key
  std::string reason;         // else, for the client
  int64_t retry_after_s = 0;  // kBanned
};

struct PeopleOptions {
  std::filesystem::path folder;
  FailureRule address_rule{.failures_max = 10, .window_s = 300, .ban_s = 3600};
  FailureRule subject_rule{.failures_max = 5, .window_s = 300, .ban_s = 3600};  // of one user name, of one wrong key
  std::function<int64_t()> now_ms;                                              // since 1970; empty: the system's clock
};

class People {
 public:
  static Result<std::unique_ptr<People>> open(PeopleOptions options);
  ~People();

  // --- the first admin ---
  bool needs_setup() const;  // there is no admin who can sign in
  // A new one-time token; earlier ones are void. kPermissionDenied when there is an admin.
  Result<std::string> make_setup_token();
  Result<User> setup(const std::string& token, const std::string& name, const std::string& password);

  // --- users ---
  std::vector<User> users() const;  // by name
  Result<User> user(const std::string& name_or_id) const;
  // An empty password: only OIDC or a later set_password() lets him in.
  Result<User> add_user(const std::string& name, Role role, const std::string& password, bool must_change = false);
  Result<User> change_user(const std::string& id, const UserChange& change);  // never the last admin
  Status remove_user(const std::string& id);                                  // and all his keys
  // Ends all his sessions.
  Status set_password(const std::string& id, const std::string& password, bool must_change = false);
  // Of the user himself. kPermissionDenied for a wrong old one.
  Status change_password(const std::string& id, const std::string& old_password, const std::string& new_password);
  // Who comes by OIDC: found by subject, else made. The role is what the provider says now. A local user of the same
  // name is never taken over: the newcomer's name gets a number.
  Result<User> oidc_user(const std::string& subject, const std::string& name, Role role);

  // --- signing in ---
  // kPermissionDenied says the same of a wrong name, a wrong password and a disabled user, after the same time. A
  // banned address or name is kResourceExhausted; too many at once too.
  Result<Tokens> login(const std::string& name, const std::string& password, const std::string& address);
  Result<Tokens> start_session(const User& user);  // of somebody who was identified otherwise
  // The old refresh token is void from then on; one that comes back ends the session.
  Result<Tokens> refresh(const std::string& token, const std::string& address);
  Status end_session(const std::string& session);

  // --- keys ---
  std::vector<ApiKey> keys() const;  // by time of creation
  Result<ApiKey> key(const std::string& id) const;
  // `key` as it shall be, but for id, hint and times. Scopes are cut to those of the owner's role when used.
  Result<NewKey> add_key(ApiKey key);
  Result<ApiKey> change_key(const std::string& id, const KeyChange& change);
  Status remove_key(const std::string& id);
  Usage usage(const std::string& key_id) const;  // today

  // --- requests ---
  Identified identify(const std::string& credential);
  // Of an address, a "user:NAME" or a "key:DIGEST": seconds until it is heard again; 0: now.
  int64_t banned_seconds(const std::string& subject) const;
  // A credential that was never good. true: the address is banned from now on.
  bool count_failure(const std::string& address, const std::string& credential);
  std::vector<Ban> bans() const;
  bool unban(const std::string& subject);
  Status ban(const std::string& address, int64_t seconds);

  Admission admit(const std::string& key_id, const Quotas& quotas);
  void done(const std::string& key_id, const Quotas& quotas, int64_t tokens);

  AuditLog& audit() { return audit_; }
  int64_t now() const { return now_ms() / 1000; }
  const PeopleOptions& options() const { return options_; }

 private:
  struct StoredUser {
    User user;
    std::string password;
  };
  struct Session {
    std::string id, user, digest;
    int64_t expires = 0;
  };

  People(PeopleOptions options, std::unique_ptr<Database> database, std::string secret);
  int64_t now_ms() const;
  Status load();               // all from the database; mutex_ is held, here and in what follows
  Status load_when_changed();  // by another process
  Status load_usage();
  Status save_usage();
  bool has_admin_but(const std::string& id) const;
  const StoredUser* find_user(const std::string& name_or_id) const;
  Result<User> insert_user(User user, const std::string& password);
  Status store_password(const std::string& id, const std::string& hash, bool must_change);
  Status end_sessions_of(const std::string& user);
  Result<Tokens> open_session(const User& user);
  Tokens tokens_of(const User& user, const std::string& session, const std::string& refresh) const;
  Identified identify_key(const std::string& secret);
  Identified identify_token(const std::string& token);
  // These two hash without mutex_; few at once, since each takes 32 MiB.
  Result<std::string> hash_bounded(const std::string& password);
  Result<bool> verify_bounded(const std::string& password, const std::string& stored);
  Status check_key(const ApiKey& key) const;
  Status setup_token_fits(const std::string& token);

  const PeopleOptions options_;
  const std::unique_ptr<Database> database_;
  const std::string secret_;  // signs access tokens
  AuditLog audit_;
  std::string dummy_hash_;  // of nobody's password: an unknown name takes as long as a known one

  mutable std::mutex mutex_;
  std::map<std::string, StoredUser> users_;      // by id; guarded by mutex_, as all that follows
  std::map<std::string, std::string> user_ids_;  // by lower-case name
  std::map<std::string, ApiKey> keys_;           // by id
  std::map<std::string, std::string> key_ids_;   // by digest
  std::map<std::string, Session> sessions_;      // by id
  FailureTable addresses_, subjects_;
  QuotaTable quotas_;
  int64_t data_version_ = -1, checked_ms_ = 0, saved_ms_ = 0, swept_s_ = 0;
  int hashing_ = 0;
};

}  // namespace quern::people
