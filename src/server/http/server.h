// HTTP/1.1 on Boost.Beast with coroutines: a few threads, any number of connections, everything bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "quern/status.h"
#include "server/http/message.h"

namespace quern::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 9997;  // 0: any free one
  int32_t threads = 2;
  int32_t connections_max = 4096;          // one more is closed at once
  size_t header_bytes_max = 64u << 10;     // over it: 431
  size_t body_bytes_max = 32u << 20;       // over it: 413
  std::chrono::seconds idle_timeout{75};   // between requests of a connection
  std::chrono::seconds read_timeout{30};   // for one whole request
  std::chrono::seconds write_timeout{60};  // for one write of a reply: a reader that is stuck longer is dropped
  std::chrono::seconds drain_timeout{30};  // after stop(): how long running requests may take
};

class Server {
 public:
  // Binds and listens; requests are taken from then on. Errors: kInvalidArgument (host), kIo (port in use).
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Handler handler);
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // Stops listening, closes idle connections, lets running requests finish within drain_timeout. Safe in any thread.
  virtual void stop() = 0;
  virtual void join() = 0;  // returns when stopped and drained
};

}  // namespace quern::http
