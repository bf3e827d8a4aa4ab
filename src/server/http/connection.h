// One connection: reads a request, runs the handler, sends the reply, again. Internal to server/http.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "server/http/server.h"

namespace quern::http {

using Socket = asio::generic::stream_protocol::socket;  // TCP and unix sockets alike

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
  virtual bool is_busy() const = 0;  // a request is in hand; any thread, like what follows
  virtual void close_if_idle() = 0;  // spares one that has just come and not asked yet
  virtual void expire() = 0;         // tells the handler that time is up
  virtual void close_now() = 0;
};

// `tls` null: plain. It must outlive the connection.
std::shared_ptr<Connection> make_connection(Socket socket, asio::ssl::context* tls, Lobby& lobby);

}  // namespace quern::http
