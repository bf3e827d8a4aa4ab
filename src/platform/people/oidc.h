// Signing in with an OpenID provider: the authorization code flow (OpenID Connect Core 1.0, section 3.1) with PKCE
// (RFC 7636), state and nonce. Thread-safe. begin() and finish() ask the provider and wait for it, 10 s at most.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "platform/people/scopes.h"
#include "quern/status.h"

namespace quern::people {

struct OidcSettings {
  std::string issuer;  // https://…, or http to this machine; without what .well-known adds
  std::string client_id;
  std::string client_secret;  // empty: a public client
  std::string redirect_uri;   // …/api/oidc/callback, as the provider knows it
  std::string scopes = "openid profile email";
  std::string role_claim = "groups";                 // a text or a list; dots lead into objects: "realm_access.roles"
  std::vector<std::pair<std::string, Role>> roles;   // a value of the claim, and what it makes its user; highest wins
  std::optional<Role> default_role = Role::kViewer;  // of who has none of them; nullopt: refused
};

// "admins=admin,staff=user". Errors: kInvalidArgument.
Result<std::vector<std::pair<std::string, Role>>> parse_role_map(const std::string& text);
// What the claims of a user make him; nullopt: he may not come in. Pure.
std::optional<Role> role_from_claims(const Json& claims, const OidcSettings& settings);

struct OidcIdentity {
  std::string subject;  // "ISSUER SUBJECT"
  std::string name;     // preferred_username, else email, else the subject
  Role role = Role::kViewer;
};

class Oidc {
 public:
  // Asks nobody yet. Errors: kInvalidArgument naming the setting. `now`: seconds since 1970; empty: the clock.
  static Result<std::unique_ptr<Oidc>> create(OidcSettings settings, std::function<int64_t()> now = {});

  struct Beginning {
    std::string url;    // where the browser goes
    std::string state;  // kept in a cookie of this browser: another one cannot end what this one began
  };
  Result<Beginning> begin();
  // What the provider sent the browser back with. Errors: kPermissionDenied, kUnavailable.
  Result<OidcIdentity> finish(const std::string& state, const std::string& cookie, const std::string& code);

  // A code that stands for a user for a minute, once: how the page gets tokens without their being in an address.
  std::string make_code(const std::string& user_id);
  std::optional<std::string> take_code(const std::string& code);  // the user's id

  const OidcSettings& settings() const { return settings_; }

 private:
  struct Provider {
    std::string issuer;  // as its tokens have it: some end in '/'
    std::string authorization_endpoint, token_endpoint, jwks_uri;
    Json keys;
    int64_t read = 0;
  };
  struct Pending {
    std::string verifier, nonce;
    int64_t until = 0;
  };

  explicit Oidc(OidcSettings settings, std::function<int64_t()> now)
      : settings_(std::move(settings)), now_(std::move(now)) {}
  Result<Provider> provider(bool fresh_keys);
  Result<std::string> exchange(const Provider& provider, const std::string& code, const std::string& verifier) const;

  const OidcSettings settings_;
  const std::function<int64_t()> now_;
  std::mutex mutex_;
  std::optional<Provider> provider_;                              // guarded by mutex_, as all that follows
  std::map<std::string, Pending> pending_;                        // by state
  std::map<std::string, std::pair<std::string, int64_t>> codes_;  // by digest: user, until
};

}  // namespace quern::people
