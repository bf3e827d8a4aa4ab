// What a run does: `quern-batch` adds a job, `quern-launch` and `quern-stop` start and end a model. Each is begun,
// looked at until it has ended, and may be given up. Functions may wait for the fleet's thread or read files, not
// longer.
#pragma once

#include <optional>
#include <string>

#include "platform/fleet/fleet.h"
#include "platform/jobs/jobs.h"
#include "server/xxljob/run_store.h"

namespace quern::xxljob {

struct Handlers {
  Jobs& jobs;
  Fleet* fleet;  // null: models are not launched here

  static bool knows(const std::string& handler);
  // What the run is about from now on: a job's id, a model's uid. One that was begun before is found again.
  Result<std::string> begin(const Trigger& trigger) const;
  struct End {
    int code = kDone;
    std::string message;
  };
  std::optional<End> look(const Run& run) const;  // nullopt: it goes on
  void give_up(const Run& run) const;
};

}  // namespace quern::xxljob
