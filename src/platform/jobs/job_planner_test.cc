#include "platform/jobs/job_planner.h"

#include <gtest/gtest.h>

#include <random>

#include "platform/jobs/window.h"

namespace quern {
namespace {

constexpr int32_t kMonday = 0, kFriday = 4 * kMinutesOfDay, kSunday = 6 * kMinutesOfDay;

int32_t at(int32_t hours, int32_t minutes) {
  return hours * 60 + minutes;
}

Window window_of(const char* text) {
  auto window = Window::parse(text);
  EXPECT_TRUE(window) << text;
  return window.value_or(Window());
}

TEST(Window, PassesMidnightOnTheDayItBeginsOn) {
  const Window nights = window_of("mon-fri 22:00-06:00, sat+sun 00:00-24:00");
  EXPECT_FALSE(nights.is_open(kMonday + at(5, 59) + kMinutesOfDay * 0 + 1));
  EXPECT_TRUE(nights.is_open(kMonday + at(22, 0)));
  EXPECT_TRUE(nights.is_open(kMonday + kMinutesOfDay + at(5, 59)));
  EXPECT_FALSE(nights.is_open(kMonday + kMinutesOfDay + at(6, 0)));
  EXPECT_TRUE(nights.is_open(kFriday + kMinutesOfDay + at(6, 0)));
  EXPECT_TRUE(nights.is_open(kSunday + at(23, 59)));
  EXPECT_FALSE(nights.is_open(kMonday));
  EXPECT_EQ(nights.minutes_until_open(kMonday + at(21, 0)), 60);
  EXPECT_EQ(nights.minutes_until_open(kSunday), 0);
  // Sunday night goes on into Monday.
  EXPECT_TRUE(window_of("SUN 23:00-01:00").is_open(kMonday + at(0, 30)));
  EXPECT_TRUE(window_of("fri-mon 10:00-11:00").is_open(kSunday + at(10, 30)));
  EXPECT_TRUE(window_of("").is_open(kMonday));
}

TEST(Window, RefusesWhatIsNone) {
  for (const char* text :
       {"22:00", "22:00-25:00", "22:60-23:00", "24:00-06:00", "22:00-22:00", "mon", "mon- 10:00-11:00",
        "monday 10:00-11:00", "10:00-11:00,x", "-1:00-02:00", "+ 10:00-11:00", "1000-1100"}) {
    EXPECT_FALSE(Window::parse(text)) << text;
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += "10:00-11:00,";
  EXPECT_FALSE(Window::parse(many));
}

PlannedJob job_of(const char* id, int32_t priority, int64_t order, int64_t ready) {
  PlannedJob job{.id = id, .priority = priority, .order = order, .lines = {}};
  job.lines["m"] = {.ready = ready, .in_flight = 0};
  return job;
}

TEST(JobPlanner, PriorityThenAge) {
  const std::vector<PlannedJob> jobs = {job_of("low", 0, 1, 100), job_of("high", 5, 3, 6), job_of("old", 0, 0, 100)};
  const auto plans = plan_jobs(jobs, {{"m", {.lines_max = 10}}});
  EXPECT_EQ(plans[1].begin.at("m"), 6);
  EXPECT_EQ(plans[2].begin.at("m"), 4);
  EXPECT_TRUE(plans[0].begin.empty());
  EXPECT_EQ(plans[0].state, JobState::kQueued);
}

TEST(JobPlanner, LeavesAModelToItsClients) {
  std::vector<PlannedJob> jobs = {job_of("a", 0, 0, 5)};
  auto plans = plan_jobs(jobs, {{"m", {.clients = 1}}});
  EXPECT_TRUE(plans[0].begin.empty());
  EXPECT_EQ(plans[0].message, "waits for 1 requests of clients at m");
  jobs[0].busy_concurrency = 2;
  EXPECT_EQ(plan_jobs(jobs, {{"m", {.clients = 1}}})[0].begin.at("m"), 2);
  EXPECT_TRUE(plan_jobs(jobs, {{"m", {.clients = 1, .lines_max = 1}}})[0].begin.empty());
  EXPECT_EQ(plan_jobs(jobs, {{"m", {}}})[0].begin.at("m"), 5);
}

TEST(JobPlanner, ClosedPausedUnknown) {
  std::vector<PlannedJob> jobs = {job_of("a", 0, 0, 5), job_of("b", 0, 1, 5), job_of("c", 0, 2, 5)};
  jobs[0].window_open = false;
  jobs[1].paused = true;
  const auto plans = plan_jobs(jobs, {{"m", {.known = false}}});
  EXPECT_EQ(plans[0].state, JobState::kWaitingWindow);
  EXPECT_EQ(plans[1].state, JobState::kPaused);
  EXPECT_EQ(plans[2].message, "waits for m, which nobody has launched");
  for (const JobPlan& plan : plans) EXPECT_TRUE(plan.begin.empty());
  // A batch's lines fail there instead.
  jobs[2].waits_for_models = false;
  EXPECT_EQ(plan_jobs(jobs, {{"m", {.known = false}}})[2].begin.at("m"), 5);
}

// A world of jobs, models and clients that comes and goes: what must always hold, and that every line ends once clients
// leave and windows open.
TEST(JobPlanner, SeededHistories) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    std::map<std::string, PlannedModel> models = {{"a", {}}, {"b", {}}, {"c", {}}};
    std::vector<PlannedJob> jobs;
    for (int64_t i = 0; i < 1 + below(6); ++i) {
      PlannedJob job{.id = std::to_string(i), .priority = static_cast<int32_t>(below(3)), .order = i, .lines = {}};
      job.max_concurrency = static_cast<int32_t>(1 + below(20));
      job.busy_concurrency = static_cast<int32_t>(below(3));
      for (const auto& [name, model] : models) {
        if (below(2) == 0) job.lines[name].ready = below(40);
      }
      jobs.push_back(std::move(job));
    }
    for (int step = 0; step < 400; ++step) {
      const bool calm = step >= 200;
      for (auto& [name, model] : models) {
        model.clients = calm ? 0 : below(3);
        model.known = calm || below(4) != 0;
        model.resting = !calm && below(5) == 0;
        model.lines_max = static_cast<int32_t>(1 + below(16));
      }
      for (PlannedJob& job : jobs) {
        job.window_open = calm || below(3) != 0;
        job.paused = !calm && below(6) == 0;
        for (auto& [name, lines] : job.lines) {
          const int64_t ended = lines.in_flight == 0 ? 0 : below(lines.in_flight + 1);
          lines.in_flight -= ended;
          if (!calm && below(10) == 0) lines.ready += ended;  // tried again
        }
      }
      const auto plans = plan_jobs(jobs, models);
      ASSERT_EQ(plans.size(), jobs.size());
      std::map<std::string, int64_t> begun, at_model;
      int64_t in_all = 0;
      for (size_t i = 0; i < jobs.size(); ++i) {
        int64_t of_job = 0, of_plan = 0;
        for (auto& [name, lines] : jobs[i].lines) {
          of_job += lines.in_flight;
          at_model[name] += lines.in_flight;
        }
        for (const auto& [name, count] : plans[i].begin) {
          ASSERT_GT(count, 0);
          ASSERT_LE(count, jobs[i].lines.at(name).ready);
          ASSERT_TRUE(jobs[i].window_open && !jobs[i].paused && models[name].known && !models[name].resting);
          begun[name] += count;
          of_plan += count;
        }
        in_all += of_job + of_plan;
        ASSERT_TRUE(of_plan == 0 || of_job + of_plan <= jobs[i].max_concurrency);
      }
      ASSERT_TRUE(begun.empty() || in_all <= kJobConcurrencyMax);
      for (const auto& [name, count] : begun) {
        const PlannedModel& model = models[name];
        ASSERT_LE(at_model[name] + count + model.clients, model.lines_max);
        ASSERT_TRUE(model.clients == 0 || at_model[name] + count <= 2);
      }
      // No job stands aside while the model has room for it, unless one that goes first has taken it.
      for (size_t i = 0; calm && i < jobs.size(); ++i) {
        for (const auto& [name, lines] : jobs[i].lines) {
          const bool begins = plans[i].begin.contains(name) || lines.ready == 0;
          int64_t of_job = 0;
          for (const auto& [other, its] : jobs[i].lines) {
            of_job += its.in_flight + (plans[i].begin.contains(other) ? plans[i].begin.at(other) : 0);
          }
          const bool full = at_model[name] + begun[name] >= models[name].lines_max ||
                            of_job >= jobs[i].max_concurrency || in_all >= kJobConcurrencyMax;
          ASSERT_TRUE(begins || full) << jobs[i].id << " " << name;
        }
      }
      for (size_t i = 0; i < jobs.size(); ++i) {
        for (const auto& [name, count] : plans[i].begin) {
          jobs[i].lines[name].ready -= count;
          jobs[i].lines[name].in_flight += count;
        }
      }
    }
    for (const PlannedJob& job : jobs) {
      for (const auto& [name, lines] : job.lines) EXPECT_EQ(lines.ready, 0) << job.id << " " << name;
    }
  }
}

}  // namespace
}  // namespace quern
