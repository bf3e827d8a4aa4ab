// Which lines of which jobs begin now. Pure: no clock, no lock.
//
// Order: the higher priority first, then the older job. Lines use what clients leave: while requests of clients run or
// wait at a model, a job begins there no more than its busy_concurrency, and a request of a client counts against what
// the model takes at once. Nothing begins outside a job's window, nor at a model that is not there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "platform/jobs/job.h"

namespace quern {

struct PlannedModel {
  bool known = true;
  int64_t clients = 0;                     // requests of clients that run or wait there
  bool resting = false;                    // it said that it has too much to do, a moment ago
  int32_t lines_max = kJobConcurrencyMax;  // at once, of all jobs
};

struct PlannedJob {
  std::string id;
  int32_t priority = 0;
  int64_t order = 0;  // the lower is older
  bool paused = false;
  bool window_open = true;
  bool waits_for_models = true;  // else lines for a model that is not there are asked anyway, and fail
  bool has_begun = false;
  int32_t max_concurrency = 8, busy_concurrency = 0;
  struct Lines {
    int64_t ready = 0;      // can begin now
    int64_t in_flight = 0;  // run now
  };
  std::map<std::string, Lines> lines;  // by model
};

struct JobPlan {
  JobState state = JobState::kQueued;
  std::string message;                   // why nothing begins; empty: nothing to say
  std::map<std::string, int64_t> begin;  // lines, by model
};

// One plan for each job, in the order of `jobs`. `models` has every model of their lines.
std::vector<JobPlan> plan_jobs(const std::vector<PlannedJob>& jobs, const std::map<std::string, PlannedModel>& models);

}  // namespace quern
