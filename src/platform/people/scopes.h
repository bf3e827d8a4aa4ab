// What somebody may do: scopes, roles, the models a key is for, and the one decision that puts them together. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern::people {

// A closed list, under the names that Xinference's users know. kSignedIn: whoever is known at all; it is not granted.
enum class Scope : uint8_t {
  kSignedIn,
  kModelsList,      // see which models there are
  kModelsRead,      // use them: every route of inference
  kModelsWrite,     // launch, stop, pull, adapters
  kModelsRegister,  // entries of the catalogue
  kKeysCreate,      // keys of one's own
  kKeysManage,      // everybody's keys
  kUsersManage,     // users, bans, the audit log
  kCacheRead,
  kCacheWrite,
  kLogsList,
  kJobsRead,
  kJobsWrite,
  kMonitorView,  // metrics, machines
  kNodesJoin,    // a machine joins to run models
  kAdmin,        // all of these, and what has no scope of its own
};
inline constexpr int kNumScopes = 16;
const char* scope_name(Scope scope);  // "models:read"

class ScopeSet {
 public:
  static ScopeSet all();
  void add(Scope scope) { bits_ |= bit(scope); }
  // kAdmin stands for every other; kSignedIn is in every set.
  bool has(Scope scope) const { return scope == Scope::kSignedIn || (bits_ & (bit(scope) | bit(Scope::kAdmin))) != 0; }
  ScopeSet both(const ScopeSet& other) const;  // what is in both
  std::vector<std::string> names() const;      // those that were granted by name; "admin" alone when it is among them
  bool operator==(const ScopeSet&) const = default;

 private:
  static uint32_t bit(Scope scope) { return uint32_t{1} << static_cast<uint32_t>(scope); }
  uint32_t bits_ = 0;
};

// "models:read", "cache:*", "*". Errors: kInvalidArgument naming the unknown one.
Result<ScopeSet> parse_scopes(const std::vector<std::string>& names);

enum class Role : uint8_t { kAdmin, kUser, kViewer };
const char* role_name(Role role);
Result<Role> parse_role(std::string_view name);
ScopeSet scopes_of(Role role);

// '*' stands for any run of characters, everything else for itself.
bool matches_pattern(std::string_view pattern, std::string_view name);

// Who asks. A value: what was true when the request came.
struct Principal {
  enum class Kind : uint8_t { kStaticKey, kApiKey, kUser };
  Kind kind = Kind::kUser;
  std::string id;       // of the key or the user; of a static key "static"
  std::string name;     // as the audit log shows it
  std::string user_id;  // of the user, or the key's owner; empty: a static key
  std::string session;  // kUser
  Role role = Role::kViewer;
  ScopeSet scopes;                    // of a key: no more than its owner has
  std::vector<std::string> models;    // patterns of the models it may use; empty: all
  int64_t expires = 0;                // seconds since 1970; 0: never
  bool must_change_password = false;  // until then it may do nothing else

  bool may_use(std::string_view model) const;
  bool all_models() const;
};

Principal static_principal();   // of a key that was given at start: everything
Principal joining_principal();  // of a token for machines that was given at start: they may join, and nothing else

enum class Verdict : uint8_t { kAllowed, kExpired, kPasswordDue, kScopeMissing, kModelForbidden };

// May `who` do what needs `needed`, with `model` where the request names one?
Verdict authorize(const Principal& who, Scope needed, std::optional<std::string_view> model, int64_t now);

}  // namespace quern::people
