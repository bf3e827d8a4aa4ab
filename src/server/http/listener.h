// Opens what a server listens on: a TCP port or a unix socket, and the certificate. Internal to server/http.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <optional>

#include "server/http/connection.h"

namespace quern::http {

using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

// Binds and listens as the options say. kInvalidArgument (host, a path that is no socket), kIo (in use).
Status open_listener(const ServerOptions& options, Acceptor& acceptor);
uint16_t port_of(const Acceptor& acceptor);  // 0 on a unix socket
// Empty without a certificate. kInvalidArgument naming the option and the file.
Result<std::optional<asio::ssl::context>> open_tls(const ServerOptions& options);

}  // namespace quern::http
