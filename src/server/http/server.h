// HTTP/1.1 on Boost.Beast with coroutines: a few threads, any number of connections, everything bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "quern/status.h"
#include "server/http/message.h"

namespace quern::http {

// A field of a header is at most so long in Beast, which throws at a longer one; a whole header, or what a client puts
// between and behind the chunks of a body, is bounded by the same number.
inline constexpr size_t kHeaderBytesLimit = 65535;

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 9997;      // 0: any free one
  std::string unix_socket;   // not empty: listen there instead of host and port
  std::string ssl_certfile;  // PEM; both or none: TLS
  std::string ssl_keyfile;
  int32_t threads = 2;
  int32_t connections_max = 4096;               // one more is closed at once
  size_t header_bytes_max = kHeaderBytesLimit;  // over it: 431; at most kHeaderBytesLimit
  size_t body_bytes_max = 32u << 20;            // over it: 413
  std::chrono::seconds idle_timeout{75};        // between requests of a connection
  std::chrono::seconds read_timeout{30};        // for one whole request
  std::chrono::seconds write_timeout{60};       // for one write of a reply: a reader that is stuck longer is dropped
  std::chrono::seconds drain_timeout{30};       // after stop(): how long running requests may take
};

class Server {
 public:
  // Binds and listens; requests are taken from then on. Errors: kInvalidArgument (host, certificate), kIo (port in
  // use).
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Handler handler);
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;             // 0 on a unix socket
  virtual std::string address() const = 0;       // "http://127.0.0.1:9997", "unix:/run/quern.sock"
  virtual int32_t num_connections() const = 0;   // open now
  virtual asio::any_io_executor executor() = 0;  // of the server's threads, for work beside connections

  // Takes no new work (Request::draining is set), closes idle connections and lets running requests finish; those that
  // still run after drain_timeout are told (Reply::out_of_time) and closed. Safe in any thread.
  virtual void stop() = 0;
  virtual void join() = 0;  // returns when stopped and drained
};

}  // namespace quern::http
