// Connections to workers that wait for their next request, by address. Thread-safe: any strand takes and gives.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/door/worker_connection.h"

namespace quern::door {

struct PoolOptions {
  size_t kept_max = 64;                   // of one address; one more is closed
  std::chrono::seconds idle_timeout{30};  // less than our own server gives a connection (75 s)
  std::chrono::milliseconds connect_timeout{5000};
  std::string ca_file;  // PEM of authorities trusted for https; empty: the system's
};

class ConnectionPool {
 public:
  // kInvalidArgument for a file of authorities that cannot be read.
  static Result<std::unique_ptr<ConnectionPool>> create(PoolOptions options);

  // The connection given back last; one that the worker has closed meanwhile is dropped.
  std::optional<KeptConnection> take(const std::string& address);
  void give(const std::string& address, KeptConnection connection);
  void forget(const std::string& address);  // closes what is kept: the worker is gone
  size_t num_kept() const;

  const PoolOptions& options() const { return options_; }
  SSL_CTX* tls() const { return tls_.get(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Kept {
    KeptConnection connection;
    Clock::time_point since;
  };
  struct ContextFree {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };

  explicit ConnectionPool(PoolOptions options) : options_(std::move(options)) {}
  void drop_expired(Clock::time_point now);  // with the lock held

  const PoolOptions options_;
  std::unique_ptr<SSL_CTX, ContextFree> tls_;
  mutable std::mutex mutex_;
  std::map<std::string, std::deque<Kept>> kept_;  // guarded by mutex_; the youngest last
  Clock::time_point swept_;                       // guarded by mutex_
};

}  // namespace quern::door
