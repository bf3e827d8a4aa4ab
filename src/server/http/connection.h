// One connection: reads a request, runs the handler, sends the reply, again. Internal to server/http.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>

#include "server/http/server.h"

namespace quern::http {

// What a connection shares with its server.
class Lobby {
 public:
  virtual ~Lobby() = default;
  virtual const ServerOptions& options() const = 0;
  virtual const Handler& handler() const = 0;
  virtual bool stopping() const = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;
  virtual asio::awaitable<void> run() = 0;
  virtual void close_if_idle() = 0;  // any thread
  virtual void close_now() = 0;      // any thread
};

std::shared_ptr<Connection> make_connection(asio::ip::tcp::socket socket, Lobby& lobby);

}  // namespace quern::http
