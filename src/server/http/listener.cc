#include "server/http/listener.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>
#include <filesystem>

#include "base/status.h"

namespace quern::http {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
using Endpoint = asio::generic::stream_protocol::endpoint;

// A socket that nobody listens on any more is removed; anything else at that path is left alone.
Status clear_socket_path(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (!std::filesystem::exists(status)) return {};
  if (!std::filesystem::is_socket(status)) return invalid_argument(fmt::format("--uds {}: is not a socket", path));
  asio::io_context context;
  asio::local::stream_protocol::socket probe(context);
  error_code failure;
  probe.connect(asio::local::stream_protocol::endpoint(path), failure);
  if (!failure) return io_error(fmt::format("--uds {}: another server listens there", path));
  ::unlink(path.c_str());
  return {};
}

Result<Endpoint> endpoint_of(const ServerOptions& options) {
  if (!options.unix_socket.empty()) {
    if (options.unix_socket.size() > 100) return invalid_argument("--uds: the path is longer than 100 bytes");
    QUERN_TRY(clear_socket_path(options.unix_socket));
    return Endpoint(asio::local::stream_protocol::endpoint(options.unix_socket));
  }
  error_code error;
  const auto address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error) return invalid_argument(fmt::format("--host {}: not an IP address", options.host));
  return Endpoint(tcp::endpoint(address, options.port));
}

}  // namespace

Status open_listener(const ServerOptions& options, Acceptor& acceptor) {
  QUERN_ASSIGN(const Endpoint endpoint, endpoint_of(options));
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error && options.unix_socket.empty()) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  const std::string place =
      options.unix_socket.empty() ? fmt::format("{}:{}", options.host, options.port) : options.unix_socket;
  return io_error(fmt::format("cannot listen on {}: {}", place, error.message()));
}

uint16_t port_of(const Acceptor& acceptor) {
  error_code error;
  const Endpoint generic = acceptor.local_endpoint(error);
  if (error || (generic.protocol().family() != AF_INET && generic.protocol().family() != AF_INET6)) return 0;
  tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), generic.data(), std::min(generic.size(), endpoint.capacity()));
  return endpoint.port();
}

Result<std::optional<asio::ssl::context>> open_tls(const ServerOptions& options) {
  if (options.ssl_certfile.empty() != options.ssl_keyfile.empty()) {
    return invalid_argument("--ssl-certfile and --ssl-keyfile: only together");
  }
  if (options.ssl_certfile.empty()) return std::nullopt;
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                      asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  error_code error;
  context.use_certificate_chain_file(options.ssl_certfile, error);
  if (error) return invalid_argument(fmt::format("--ssl-certfile {}: {}", options.ssl_certfile, error.message()));
  context.use_private_key_file(options.ssl_keyfile, asio::ssl::context::pem, error);
  if (error) return invalid_argument(fmt::format("--ssl-keyfile {}: {}", options.ssl_keyfile, error.message()));
  return context;
}

}  // namespace quern::http
