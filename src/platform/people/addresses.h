// Networks in CIDR notation (RFC 4632, RFC 4291), and which address a request really came from. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern::people {

struct Network {
  std::array<uint8_t, 16> bytes{};  // IPv4 as ::ffff:a.b.c.d
  int bits = 128;
};
// "10.0.0.0/8", "::1". Errors: kInvalidArgument quoting the text.
Result<Network> parse_network(std::string_view text);
bool contains(const std::vector<Network>& networks, std::string_view address);

// `peer` is the other end of the connection; `forwarded` what X-Forwarded-For says, oldest first. Only what trusted
// proxies wrote counts: from the right, the first address that is none of theirs. Whoever is not trusted may write
// there what he likes.
std::string client_address(std::string_view peer, std::string_view forwarded, const std::vector<Network>& trusted);

// What failures of one address are counted under: IPv4 itself, of IPv6 its /64, which one customer has whole.
std::string address_group(std::string_view address);

}  // namespace quern::people
