// Random secrets, digests and password hashes (OpenSSL). Pure but for the randomness.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern::people {

std::string random_bytes(size_t count);
std::string random_token(size_t bytes);  // base64url
std::string sha256_hex(std::string_view bytes);
std::string sha256_bytes(std::string_view bytes);
std::string hmac_sha256(std::string_view key, std::string_view bytes);
bool equal_secrets(std::string_view a, std::string_view b);  // time depends on the lengths alone

// RFC 4648, section 5, without padding.
std::string base64url_encode(std::string_view bytes);
std::optional<std::string> base64url_decode(std::string_view text);  // nullopt: another character, a broken end

inline constexpr size_t kPasswordBytesMin = 8;
inline constexpr size_t kPasswordBytesMax = 1024;

// scrypt (RFC 7914): "scrypt$N$r$p$SALT$HASH", salt and hash in base64url. Takes some 0.2 s and 32 MiB.
// Errors: kInvalidArgument for a password that is too short or too long.
Result<std::string> hash_password(std::string_view password);
// false also for a stored text that is none of ours. Its parameters are bounded: a changed database cannot hang us.
bool verify_password(std::string_view password, std::string_view stored);

}  // namespace quern::people
