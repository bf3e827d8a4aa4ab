// The fleet of `quern serve`: models in processes of their own, behind this server's address.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "platform/fleet/fleet.h"
#include "server/log.h"

namespace quern::cli {

struct ServeFleetOptions {
  bool on = false;   // --fleet
  bool off = false;  // --no-fleet
  std::chrono::milliseconds load_timeout{600000};
  int64_t memory_budget_bytes = 0;
  bool stop_workers = false;
};

void add_fleet_options(CLI::App& command, ServeFleetOptions& options);

// Without a word about it: when no MODEL is named. A worker is started with one and must not become a fleet.
bool wants_fleet(const ServeFleetOptions& options, bool any_model);

// The fleet of QUERN_HOME/fleet; null, with a warning in the log, when it cannot be opened. The log must outlive it.
std::unique_ptr<Fleet> open_fleet(const ServeFleetOptions& options, const Log& log);

}  // namespace quern::cli
