// An executor of XXL-JOB: a scheduler that a house has already can start jobs, launch and stop models here. It listens
// on an address of its own, tells the admin every 30 s that it is there, and reports how each run ended until the admin
// has it. Code from outside never runs: glueType must be BEAN, handlers are those of handlers.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/fleet/fleet.h"
#include "platform/jobs/jobs.h"
#include "server/http/server.h"
#include "server/log.h"

namespace quern::xxljob {

struct Settings {
  std::vector<std::string> admins;  // "http://admin:8080/xxl-job-admin"
  std::string app;                  // the executor's AppName there
  std::string token;                // empty: none is asked for
  std::string host = "127.0.0.1";
  uint16_t port = 9999;
  std::string address;         // how the admin reaches it; empty: http://HOST:PORT/
  std::filesystem::path runs;  // the database of runs
};

class Executor {
 public:
  // Jobs, fleet (or null) and log must outlive it. Errors: those of http::Server::start() and of the database.
  static Result<std::unique_ptr<Executor>> start(Settings settings, Jobs& jobs, Fleet* fleet, const Log& log);
  virtual ~Executor() = default;            // stop()
  virtual std::string address() const = 0;  // as the admin is told
  // Takes itself off the admin's list. Runs go on after the next start.
  virtual void stop() = 0;
};

}  // namespace quern::xxljob
