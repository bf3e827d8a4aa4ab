#include "platform/jobs/job_planner.h"

#include <algorithm>
#include <numeric>

#include "base/status.h"

namespace quern {
namespace {

std::string model_words(const std::string& model) {
  return model.empty() ? "the model" : model;
}

class JobPlanning {
 public:
  JobPlanning(const std::vector<PlannedJob>& jobs, const std::map<std::string, PlannedModel>& models)
      : models_(models) {
    for (const PlannedJob& job : jobs) {
      for (const auto& [model, lines] : job.lines) {
        at_model_[model] += lines.in_flight;
        in_flight_ += lines.in_flight;
      }
    }
  }

  JobPlan plan(const PlannedJob& job) {
    JobPlan plan{.state = JobState::kPaused, .message = {}, .begin = {}};
    if (job.paused) return plan;
    if (!job.window_open) {
      plan.state = JobState::kWaitingWindow;
      plan.message = "waits for its window";
      return plan;
    }
    int64_t of_job = 0;
    for (const auto& [model, lines] : job.lines) of_job += lines.in_flight;
    const bool runs = of_job > 0;
    for (const auto& [model, lines] : job.lines) {
      const int64_t room = std::min(room_of(job, model, plan.message), job.max_concurrency - of_job);
      const int64_t count = std::clamp<int64_t>(std::min(room, kJobConcurrencyMax - in_flight_), 0, lines.ready);
      if (count == 0) continue;
      plan.begin[model] = count;
      at_model_[model] += count;
      in_flight_ += count;
      of_job += count;
    }
    if (!plan.begin.empty() || runs) plan.message.clear();
    plan.state = job.has_begun || !plan.begin.empty() ? JobState::kRunning : JobState::kQueued;
    return plan;
  }

 private:
  // How many more lines the model takes from this job; why not more, where somebody should know.
  int64_t room_of(const PlannedJob& job, const std::string& model, std::string& message) const {
    const PlannedModel& there = models_.at(model);
    const auto found = at_model_.find(model);
    const int64_t lines = found == at_model_.end() ? 0 : found->second;
    if (!there.known && job.waits_for_models) {
      message = fmt::format("waits for {}, which nobody has launched", model_words(model));
      return 0;
    }
    if (there.resting) {
      message = fmt::format("waits for {}, which has too much to do", model_words(model));
      return 0;
    }
    if (there.clients == 0) return there.lines_max - lines;
    message = fmt::format("waits for {} requests of clients at {}", there.clients, model_words(model));
    // What other jobs have there is in the clients' way as well.
    return std::min<int64_t>(job.busy_concurrency - lines, there.lines_max - there.clients - lines);
  }

  const std::map<std::string, PlannedModel>& models_;
  std::map<std::string, int64_t> at_model_;
  int64_t in_flight_ = 0;
};

}  // namespace

std::vector<JobPlan> plan_jobs(const std::vector<PlannedJob>& jobs, const std::map<std::string, PlannedModel>& models) {
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (jobs[a].priority != jobs[b].priority) return jobs[a].priority > jobs[b].priority;
    return jobs[a].order < jobs[b].order;
  });
  JobPlanning planning(jobs, models);
  std::vector<JobPlan> plans(jobs.size());
  for (const size_t i : order) plans[i] = planning.plan(jobs[i]);
  return plans;
}

}  // namespace quern
