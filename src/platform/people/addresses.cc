#include "platform/people/addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/status.h"

namespace quern::people {
namespace {

using Bytes = std::array<uint8_t, 16>;

constexpr size_t kForwardedMax = 32;  // addresses of one header that are looked at

std::optional<Bytes> address_bytes(std::string_view text) {
  const std::string address(text.substr(0, text.find('%')));  // without a zone
  Bytes bytes{};
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return bytes;
  bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (inet_pton(AF_INET, address.c_str(), bytes.data() + 12) == 1) return bytes;
  return std::nullopt;
}

bool is_mapped(const Bytes& bytes) {
  const Bytes mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(bytes.data(), mapped.data(), 12) == 0;
}

bool contains(const Network& network, const Bytes& address) {
  const int whole = network.bits / 8, rest = network.bits % 8;
  if (std::memcmp(network.bytes.data(), address.data(), static_cast<size_t>(whole)) != 0) return false;
  if (rest == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff00 >> rest);
  const auto at = static_cast<size_t>(whole);
  return (network.bytes[at] & mask) == (address[at] & mask);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string text_of_bytes(const Bytes& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_mapped(bytes)) return inet_ntop(AF_INET, bytes.data() + 12, text, sizeof text);
  return inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
}

}  // namespace

Result<Network> parse_network(std::string_view text) {
  const auto refuse = [&] { return invalid_argument(fmt::format("'{:.64}' is no address or network", text)); };
  const size_t slash = text.find('/');
  const auto bytes = address_bytes(text.substr(0, slash));
  if (!bytes) return refuse();
  Network network{.bytes = *bytes};
  if (slash == std::string_view::npos) return network;
  const std::string_view length = text.substr(slash + 1);
  const bool is_v4 = text.find(':') == std::string_view::npos;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), network.bits);
  if (error != std::errc() || end != length.data() + length.size() || network.bits < 0 ||
      network.bits > (is_v4 ? 32 : 128)) {
    return refuse();
  }
  if (is_v4) network.bits += 96;
  return network;
}

bool contains(const std::vector<Network>& networks, std::string_view address) {
  const auto bytes = address_bytes(address);
  return bytes && std::ranges::any_of(networks, [&](const Network& one) { return contains(one, *bytes); });
}

std::string client_address(std::string_view peer, std::string_view forwarded, const std::vector<Network>& trusted) {
  // A unix socket has no address: only this machine's own proxy can be behind it.
  std::string client(peer);
  if (!peer.empty() && !contains(trusted, peer)) return client;
  if (trusted.empty()) return client;
  for (size_t seen = 0; seen < kForwardedMax && !forwarded.empty(); ++seen) {
    const size_t comma = forwarded.rfind(',');
    const std::string_view last = trimmed(comma == std::string_view::npos ? forwarded : forwarded.substr(comma + 1));
    forwarded = comma == std::string_view::npos ? std::string_view() : forwarded.substr(0, comma);
    const auto bytes = address_bytes(last);
    if (!bytes) break;  // a trusted proxy writes addresses; what is before it is not known
    client = text_of_bytes(*bytes);
    if (!contains(trusted, client)) break;
  }
  return client;
}

std::string address_group(std::string_view address) {
  auto bytes = address_bytes(address);
  if (!bytes) return std::string(address);
  if (is_mapped(*bytes)) return text_of_bytes(*bytes);
  std::fill(bytes->begin() + 8, bytes->end(), 0);
  return text_of_bytes(*bytes) + "/64";
}

}  // namespace quern::people
