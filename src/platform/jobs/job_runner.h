// The thread that runs jobs: it takes what was answered into the journal, asks the planner, and begins lines. Internal
// to platform/jobs. All but start(), wake() and stop() run on that thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "platform/jobs/jobs.h"
#include "platform/jobs/window.h"

namespace quern {

inline constexpr const char* kJobInputName = "input.jsonl";
inline constexpr const char* kJobResultsName = "results.jsonl";

class JobRunner {
 public:
  JobRunner(JobStore& store, const JobsOptions& options) : store_(store), options_(options) {}
  ~JobRunner();

  void start();
  void wake();
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Line {
    JobInputLine place;
    int32_t tries = 0, overloads = 0;
    Clock::time_point not_before;
    std::string request_id, custom_id;
    std::shared_ptr<LineHandle> handle;
  };
  // Lines of one model that have no answer: fetched from the store a few at a time.
  struct Queue {
    int64_t unfetched = 0, cursor = -1;
    std::deque<Line> ready;  // those that are tried again first
  };
  struct Written {
    int64_t number = 0;
    bool failed = false;
    std::string text;
  };
  struct Active {
    JobView job;
    Window window;
    int64_t results_bytes = 0;
    int64_t notes = 0;  // of lines, in the log
    bool ending = false;
    Clock::time_point publish_after;
    std::map<std::string, Queue> queues;
    std::map<int64_t, Line> in_flight;
    std::vector<Written> unwritten;
  };
  struct Answer {
    std::string job;
    int64_t number = 0;
    LineAnswer answer;
  };
  struct Rest {
    Clock::time_point until;
    int32_t level = 0;
  };

  // job_runner.cc: the loop.
  void run();
  bool holds_lock();
  bool wait(std::chrono::milliseconds time);  // false: stopping
  std::chrono::milliseconds turn();           // how long nothing has to be looked at
  Status refresh();
  std::optional<Active> load(JobView job);
  void end_or_publish(Active& active);
  void plan_and_begin();
  PlannedJob planned(Active& active);
  void begin(Active& active, const std::string& model, int64_t count);
  bool begin_line(Active& active, Line line);
  void give_up_all();
  void note(Active& active, const std::string& text);
  void complain(const Status& status);

  // job_journal.cc: answers, results.
  void take_answers();
  void judge(Active& active, Line line, LineAnswer answer);
  void write_results(Active& active);
  Status append(Active& active);
  void publish(Active& active, JobState state, const std::string& message);
  Result<std::string> collect(const Active& active, bool failed);
  Status put(const Active& active, bool failed, std::string& file_id);
  std::filesystem::path folder_of(const Active& active) const { return options_.folder / active.job.id; }

  JobStore& store_;
  const JobsOptions& options_;
  int lock_fd_ = -1;
  std::map<std::string, Active> active_;  // by id
  std::map<std::string, Rest> rests_;     // by model
  std::string last_complaint_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, woken_ = false;  // guarded by mutex_
  std::vector<Answer> answers_;            // guarded by mutex_
  std::thread thread_;
};

}  // namespace quern
