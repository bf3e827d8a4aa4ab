// JSON Web Tokens (RFC 7519) in compact form (RFC 7515): our own, HS256, and the reading of others'. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "quern/status.h"

namespace quern::people {

inline constexpr size_t kTokenBytesMax = 16 * 1024;

// A token taken apart; nothing in it is trusted yet.
struct SignedToken {
  Json header, claims;      // objects
  std::string signed_part;  // what the signature is about
  std::string signature;    // bytes
};
// Errors: kInvalidArgument.
Result<SignedToken> parse_token(std::string_view token);

// A claim that is a text, or empty.
std::string text_claim(const Json& claims, std::string_view name);
// A claim that is a whole number, or `otherwise`.
int64_t time_claim(const Json& claims, std::string_view name, int64_t otherwise);

std::string sign_token(const Json& claims, std::string_view secret);
// The claims of a token of ours that still holds. Any algorithm but HS256 is refused. Errors: kPermissionDenied for one
// that was never good, kDeadlineExceeded for one that was.
Result<Json> verify_token(std::string_view token, std::string_view secret, int64_t now);

}  // namespace quern::people
