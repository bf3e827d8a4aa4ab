#include "platform/people/secrets.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace quern::people {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// OWASP's advice for scrypt with 32 MiB (Password Storage Cheat Sheet): N 2^15, r 8, p 3.
struct ScryptCost {
  uint64_t n = 1u << 15, r = 8, p = 3;
};
constexpr size_t kSaltBytes = 16, kHashBytes = 32;
constexpr uint64_t kScryptMemoryMax = 160u << 20;

std::optional<std::string> scrypt(std::string_view password, std::string_view salt, const ScryptCost& cost) {
  std::string hash(kHashBytes, '\0');
  const int done = EVP_PBE_scrypt(password.data(), password.size(), as_bytes(salt), salt.size(), cost.n, cost.r, cost.p,
                                  kScryptMemoryMax, reinterpret_cast<unsigned char*>(hash.data()), hash.size());
  if (done != 1) return std::nullopt;
  return hash;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (size_t end = 0; end != std::string_view::npos;) {
    end = text.find(by);
    parts.push_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return parts;
}

bool read_number(std::string_view text, uint64_t max, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= max;
}

}  // namespace

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  QUERN_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1);
  return bytes;
}

std::string random_token(size_t bytes) {
  return base64url_encode(random_bytes(bytes));
}

std::string sha256_bytes(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(as_bytes(bytes), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string sha256_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : sha256_bytes(bytes)) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string mac(SHA256_DIGEST_LENGTH, '\0');
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), as_bytes(bytes), bytes.size(),
       reinterpret_cast<unsigned char*>(mac.data()), &length);
  return mac;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string base64url_encode(std::string_view bytes) {
  std::string text;
  uint32_t held = 0;
  int bits = 0;
  for (const char byte : bytes) {
    held = (held << 8) | static_cast<unsigned char>(byte);
    for (bits += 8; bits >= 6; bits -= 6) text += kAlphabet[(held >> (bits - 6)) & 63];
  }
  if (bits > 0) text += kAlphabet[(held << (6 - bits)) & 63];
  return text;
}

std::optional<std::string> base64url_decode(std::string_view text) {
  std::string bytes;
  uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    held = (held << 6) | static_cast<uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((held >> bits) & 255);
  }
  // Left-over bits must be zero, so that one value has one text.
  if (bits >= 6 || (held & ((1u << bits) - 1)) != 0) return std::nullopt;
  return bytes;
}

Result<std::string> hash_password(std::string_view password) {
  if (password.size() < kPasswordBytesMin || password.size() > kPasswordBytesMax) {
    return invalid_argument(
        fmt::format("password: must have {} to {} characters", kPasswordBytesMin, kPasswordBytesMax));
  }
  const ScryptCost cost;
  const std::string salt = random_bytes(kSaltBytes);
  const auto hash = scrypt(password, salt, cost);
  if (!hash) return make_error(ErrorCode::kInternal, "scrypt failed: is there memory?");
  return fmt::format("scrypt${}${}${}${}${}", cost.n, cost.r, cost.p, base64url_encode(salt), base64url_encode(*hash));
}

bool verify_password(std::string_view password, std::string_view stored) {
  if (password.size() > kPasswordBytesMax) return false;
  const auto parts = split(stored, '$');
  ScryptCost cost;
  if (parts.size() != 6 || parts[0] != "scrypt" || !read_number(parts[1], 1u << 17, cost.n) ||
      !read_number(parts[2], 8, cost.r) || !read_number(parts[3], 8, cost.p)) {
    return false;
  }
  const auto salt = base64url_decode(parts[4]), wanted = base64url_decode(parts[5]);
  if (!salt || !wanted) return false;
  const auto hash = scrypt(password, *salt, cost);
  return hash && equal_secrets(*hash, *wanted);
}

}  // namespace quern::people
