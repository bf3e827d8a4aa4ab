#include "platform/people/scopes.h"

#include <algorithm>
#include <array>

#include "base/status.h"

namespace quern::people {
namespace {

constexpr std::array<const char*, kNumScopes> kScopeNames = {
    "signed_in",   "models:list",  "models:read", "models:write", "models:register", "keys:create",
    "keys:manage", "users:manage", "cache:read",  "cache:write",  "logs:list",       "jobs:read",
    "jobs:write",  "monitor:view", "nodes:join",  "admin"};

ScopeSet set_of(std::initializer_list<Scope> scopes) {
  ScopeSet set;
  for (const Scope scope : scopes) set.add(scope);
  return set;
}

bool grant(std::string_view name, ScopeSet& set) {
  const bool wild = name.ends_with(":*");
  const std::string_view family = name.substr(0, name.size() - (wild ? 1 : 0));
  bool known = false;
  for (int i = 1; i < kNumScopes; ++i) {
    const std::string_view scope = kScopeNames[static_cast<size_t>(i)];
    if (wild ? !scope.starts_with(family) : scope != name) continue;
    set.add(static_cast<Scope>(i));
    known = true;
  }
  return known;
}

}  // namespace

const char* scope_name(Scope scope) {
  return kScopeNames[static_cast<size_t>(scope)];
}

ScopeSet ScopeSet::all() {
  return set_of({Scope::kAdmin});
}

ScopeSet ScopeSet::both(const ScopeSet& other) const {
  ScopeSet result;
  for (int i = 1; i < kNumScopes; ++i) {
    const auto scope = static_cast<Scope>(i);
    if (has(scope) && other.has(scope)) result.add(scope);
  }
  return result;
}

std::vector<std::string> ScopeSet::names() const {
  if (has(Scope::kAdmin)) return {scope_name(Scope::kAdmin)};
  std::vector<std::string> names;
  for (int i = 1; i < kNumScopes; ++i) {
    if (has(static_cast<Scope>(i))) names.emplace_back(kScopeNames[static_cast<size_t>(i)]);
  }
  return names;
}

Result<ScopeSet> parse_scopes(const std::vector<std::string>& names) {
  ScopeSet set;
  for (const std::string& name : names) {
    if (name == "*") {
      set.add(Scope::kAdmin);
    } else if (!grant(name, set)) {
      return invalid_argument(fmt::format("scopes: '{:.64}' is no scope", name));
    }
  }
  return set;
}

const char* role_name(Role role) {
  switch (role) {
    case Role::kAdmin: return "admin";
    case Role::kUser: return "user";
    case Role::kViewer: return "viewer";
  }
  return "viewer";
}

Result<Role> parse_role(std::string_view name) {
  for (const Role role : {Role::kAdmin, Role::kUser, Role::kViewer}) {
    if (name == role_name(role)) return role;
  }
  return invalid_argument(fmt::format("role: '{:.64}' is none of admin, user, viewer", name));
}

ScopeSet scopes_of(Role role) {
  switch (role) {
    case Role::kAdmin: return ScopeSet::all();
    case Role::kUser:
      return set_of({Scope::kModelsList, Scope::kModelsRead, Scope::kKeysCreate, Scope::kCacheRead, Scope::kJobsRead,
                     Scope::kJobsWrite, Scope::kMonitorView});
    case Role::kViewer: return set_of({Scope::kModelsList, Scope::kCacheRead, Scope::kMonitorView});
  }
  return {};
}

// Back to the last star when what follows it does not fit: linear in practice, at most pattern × name.
bool matches_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool Principal::all_models() const {
  return models.empty() || std::ranges::find(models, "*") != models.end();
}

bool Principal::may_use(std::string_view model) const {
  return models.empty() || std::ranges::any_of(models, [&](const auto& one) { return matches_pattern(one, model); });
}

Principal static_principal() {
  return {.kind = Principal::Kind::kStaticKey,
          .id = "static",
          .name = "static key",
          .role = Role::kAdmin,
          .scopes = ScopeSet::all()};
}

Principal joining_principal() {
  return {.kind = Principal::Kind::kStaticKey,
          .id = "static",
          .name = "worker token",
          .scopes = set_of({Scope::kNodesJoin})};
}

Verdict authorize(const Principal& who, Scope needed, std::optional<std::string_view> model, int64_t now) {
  if (who.expires != 0 && who.expires <= now) return Verdict::kExpired;
  if (who.must_change_password && needed != Scope::kSignedIn) return Verdict::kPasswordDue;
  if (!who.scopes.has(needed)) return Verdict::kScopeMissing;
  if (model && !who.may_use(*model)) return Verdict::kModelForbidden;
  return Verdict::kAllowed;
}

}  // namespace quern::people
