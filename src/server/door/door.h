// The front door: a request whose body names a model of the fleet is carried to one of its workers, and the worker's
// answer back, as it comes. The door of this folder.
//
// What a client reads is always in its own dialect: why there is no worker, and why a stream ended early. A request is
// tried on another replica only while its client has seen nothing: when there was no connection, when it broke before
// any of the answer's body came (once), or when the worker said 429 or 503 and another one is ready.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "platform/fleet/fleet.h"
#include "server/door/connection_pool.h"
#include "server/door/door_metrics.h"
#include "server/log.h"
#include "server/route.h"

namespace quern::door {

struct DoorOptions {
  std::chrono::milliseconds load_timeout{600000};  // how long a request waits for its model
  PoolOptions pool;
};

class Door {
 public:
  // Both must outlive the door. Errors: those of ConnectionPool::create().
  static Result<std::unique_ptr<Door>> create(Fleet& fleet, const Log& log, DoorOptions options);

  // Answers a POST whose body, JSON or a form, names a model that the fleet knows and this process does not serve
  // itself, and refuses a form that cannot be read. false: it is another's, and nothing was done.
  http::asio::awaitable<bool> serve(const Route& route, const ModelTable& local, const http::Request& request,
                                    http::Reply& reply);

  // `own` and what the door and the workers count, as /metrics shows it.
  http::asio::awaitable<std::string> add_metrics(std::string own) const;

  // Requests of clients that run or wait at a model; nullopt: the fleet does not know it.
  std::optional<int64_t> clients(const std::string& model);

  Fleet& fleet() const { return fleet_; }
  ConnectionPool& pool() const { return *pool_; }

 private:
  friend class Carriage;
  Door(Fleet& fleet, const Log& log, DoorOptions options) : fleet_(fleet), log_(log), options_(std::move(options)) {}
  // What a client's word means to the fleet: Ollama's clients add ":latest".
  std::optional<ServedName> known_name(const std::string& name) const;

  Fleet& fleet_;
  const Log& log_;
  const DoorOptions options_;
  std::unique_ptr<ConnectionPool> pool_;
  DoorMetrics metrics_;
};

}  // namespace quern::door
