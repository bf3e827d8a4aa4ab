// Where a worker listens: "unix:/run/w.sock", "http://127.0.0.1:4711", "https://api.example.com", or
// "https://10.0.0.2:9998#sha256//…", where that public key alone is trusted. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern::door {

struct WorkerAddress {
  enum class Kind : uint8_t { kUnix, kTcp, kTls };
  Kind kind = Kind::kUnix;
  std::string host;  // a socket's path; else a name or an address, without brackets
  uint16_t port = 0;
  std::string pin;          // "sha256//" and the SHA-256 of the public key in base64; empty: authorities decide
  std::string text;         // as it was read: names the address in pools and messages
  std::string host_header;  // what the worker is told it was called by (RFC 9112, section 3.2)
};

// No path, no user, no query behind the port. kInvalidArgument naming the address.
Result<WorkerAddress> parse_worker_address(std::string_view text);

}  // namespace quern::door
