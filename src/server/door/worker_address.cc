#include "server/door/worker_address.h"

#include <sys/un.h>

#include <charconv>

#include "base/status.h"

namespace quern::door {
namespace {

constexpr std::string_view kUnix = "unix:", kHttp = "http://", kHttps = "https://";

auto refuse(std::string_view text, const char* why) {
  return invalid_argument(fmt::format("worker address {}: {}", text, why));
}

// A name or an address may hold letters, digits and these; anything else would end up in a header.
bool is_host(std::string_view host) {
  if (host.empty() || host.size() > 255) return false;
  for (const char c : host) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                    c == '-' || c == '_' || c == ':';
    if (!ok) return false;
  }
  return true;
}

// SHA-256 in base64 has 44 characters.
bool is_pin(std::string_view pin) {
  constexpr std::string_view kHash = "sha256//";
  return pin.starts_with(kHash) && pin.size() == kHash.size() + 44;
}

Result<WorkerAddress> parse_host(std::string_view text, std::string_view rest, WorkerAddress address) {
  if (const size_t mark = rest.find('#'); mark != std::string_view::npos) {
    address.pin = std::string(rest.substr(mark + 1));
    if (address.kind != WorkerAddress::Kind::kTls || !is_pin(address.pin)) return refuse(text, "is no pinned address");
    rest = rest.substr(0, mark);
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const bool brackets = rest.starts_with('[');
  const size_t end = brackets ? rest.find(']') : rest.find(':');
  if (brackets && end == std::string_view::npos) return refuse(text, "a bracket is not closed");
  address.host = std::string(brackets ? rest.substr(1, end - 1) : rest.substr(0, end));
  std::string_view behind = end == std::string_view::npos ? "" : rest.substr(brackets ? end + 1 : end);
  if (!is_host(address.host) || (!brackets && address.host.find(':') != std::string::npos)) {
    return refuse(text, "is no host");
  }
  if (!behind.empty()) {
    if (behind.front() != ':') return refuse(text, "is no host and port");
    behind.remove_prefix(1);
    const auto [stop, error] = std::from_chars(behind.data(), behind.data() + behind.size(), address.port);
    if (error != std::errc() || stop != behind.data() + behind.size() || address.port == 0) {
      return refuse(text, "is no port");
    }
  }
  address.host_header = std::string(rest);
  return address;
}

}  // namespace

Result<WorkerAddress> parse_worker_address(std::string_view text) {
  WorkerAddress address;
  address.text = std::string(text);
  if (text.starts_with(kUnix)) {
    address.host = std::string(text.substr(kUnix.size()));
    address.host_header = "localhost";
    if (address.host.empty()) return refuse(text, "has no path");
    if (address.host.size() >= sizeof(sockaddr_un::sun_path)) return refuse(text, "the path is too long for a socket");
    return address;
  }
  const bool tls = text.starts_with(kHttps);
  if (!tls && !text.starts_with(kHttp)) return refuse(text, "must begin with unix:, http:// or https://");
  address.kind = tls ? WorkerAddress::Kind::kTls : WorkerAddress::Kind::kTcp;
  address.port = tls ? 443 : 80;
  return parse_host(text, text.substr(tls ? kHttps.size() : kHttp.size()), std::move(address));
}

}  // namespace quern::door
