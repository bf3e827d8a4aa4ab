#include "server/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <cctype>
#include <charconv>
#include <fstream>

#include "base/status.h"

namespace quern {

KeySet::Digest KeySet::digest_of(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

Status KeySet::add(std::string_view line) {
  constexpr std::string_view kHashed = "sha256:";
  if (!line.starts_with(kHashed)) {
    digests_.push_back(digest_of(line));
    return {};
  }
  const std::string_view hex = line.substr(kHashed.size());
  Digest digest;
  if (hex.size() != 2 * digest.size()) return invalid_argument("a sha256: key must have 64 hex digits");
  for (size_t i = 0; i < digest.size(); ++i) {
    const char* begin = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, digest[i], 16);
    if (error != std::errc() || end != begin + 2) return invalid_argument("a sha256: key must have 64 hex digits");
  }
  digests_.push_back(digest);
  return {};
}

Status KeySet::add_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return invalid_argument(fmt::format("--api-key-file {}: cannot read", path));
  bool any = false;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (const Status status = add(line); !status) {
      return invalid_argument(fmt::format("--api-key-file {}: {}", path, status.error().message));
    }
    any = true;
  }
  if (!any) return invalid_argument(fmt::format("--api-key-file {}: has no key", path));
  return {};
}

namespace {

std::optional<std::string_view> bearer_of(const http::Request& request) {
  const auto header = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (!header || header->size() < kBearer.size()) return std::nullopt;
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>((*header)[i])) != kBearer[i]) return std::nullopt;
  }
  return header->substr(kBearer.size());
}

}  // namespace

std::optional<std::string_view> key_of(const http::Request& request) {
  if (const auto key = request.header("x-api-key")) return key;
  return bearer_of(request);
}

bool KeySet::knows(std::string_view key) const {
  const Digest digest = digest_of(key);
  bool fits = false;
  for (const Digest& known : digests_) fits |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0;
  return fits;
}

bool KeySet::fits(const http::Request& request) const {
  if (const auto key = request.header("x-api-key"); key && knows(*key)) return true;
  const auto key = bearer_of(request);
  return key && knows(*key);
}

}  // namespace quern
