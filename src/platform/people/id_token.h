// ID tokens of OpenID Connect (Core 1.0, section 3.1.3.7), checked against the issuer's keys (JWK sets, RFC 7517).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "quern/status.h"

namespace quern::people {

struct IdTokenRules {
  std::string issuer, client_id, nonce;
  int64_t now = 0;  // seconds since 1970; a minute of difference between the clocks is forgiven
};

// The claims of a token signed by one of `keys` ({"keys":[…]}) with RS256 or ES256 (P-256) for us. Errors:
// kPermissionDenied saying what does not hold; kNotFound when no key of the set has the token's id: the issuer may have
// new ones.
Result<Json> verify_id_token(std::string_view token, const Json& keys, const IdTokenRules& rules);

}  // namespace quern::people
