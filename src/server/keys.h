// API keys. Kept as SHA-256 digests only; compared in constant time, so that how long a refusal takes tells nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"
#include "server/http/message.h"

namespace quern {

// What stands in "X-Api-Key: KEY", else in "Authorization: Bearer KEY"; it need not be a key that fits. nullopt:
// neither.
std::optional<std::string_view> key_of(const http::Request& request);

class KeySet {
 public:
  // A key as clients send it, or "sha256:" and the 64 hex digits of its digest. kInvalidArgument for broken digits.
  Status add(std::string_view line);
  // One key a line; blank lines and lines that begin with # do not count. kInvalidArgument naming the file.
  Status add_file(const std::string& path);

  bool empty() const { return digests_.empty(); }
  // "Authorization: Bearer KEY" or "X-Api-Key: KEY".
  bool fits(const http::Request& request) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest_of(std::string_view key);
  bool knows(std::string_view key) const;

  std::vector<Digest> digests_;
};

}  // namespace quern
