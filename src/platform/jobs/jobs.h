// Batch jobs: a queue of files whose lines are asked, one after another, with what capacity clients leave. The door of
// this folder, with job.h.
//
// State is in jobs.db beside a folder per job (its input, and results so far). A line's answer is written to the file
// of results, then noted in the database with where it ends; what is not noted is overwritten. So every line has one
// answer, whenever the process ends. Of several processes with one folder, the one that holds its lock runs the jobs.
// One thread does (job_runner.h); the functions here are thread-safe, and read or change the database only.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/jobs/job.h"
#include "platform/jobs/job_planner.h"
#include "platform/jobs/job_store.h"
#include "quern/status.h"

namespace quern {

struct LineCall {
  std::string request_id;
  std::string url;   // one of kJobEndpoints
  std::string body;  // JSON
};

struct LineAnswer {
  int status = 0;  // 0: there is none
  std::string body;
};

class LineHandle {
 public:
  virtual ~LineHandle() = default;
  virtual void cancel() = 0;  // the answer comes soon, perhaps with status 0
};

struct JobsOptions {
  std::filesystem::path folder;       // of the queue; made when it is missing
  std::filesystem::path paths_below;  // canonical; jobs may name files below it; empty: none
  // Files of /v1/files. Keeping one that is there changes nothing. From any thread.
  std::function<Result<std::string>(const std::string& id)> read_file;
  std::function<Status(const std::string& id, const std::string& name, std::string text)> keep_file;
  // Asks as a client would, behind clients; `done` is called once, from any thread, after this returned or before.
  // Null: not now, and `done` is not called.
  std::function<std::shared_ptr<LineHandle>(LineCall call, std::function<void(LineAnswer)> done)> run_line;
  std::function<PlannedModel(const std::string& model)> look_at;
  std::function<void(const std::string&)> log;
};

class JobRunner;

class Jobs {
 public:
  static Result<std::unique_ptr<Jobs>> open(JobsOptions options);
  ~Jobs();

  void start();  // runs what waits
  void stop();   // lines that run are given up, and asked again after the next start

  // The input is read and checked, and is not needed afterwards. Errors: kInvalidArgument naming the field, kNotFound,
  // kResourceExhausted. `id`: of the caller, as new_job_id() writes them; empty: a new one.
  Result<JobView> add(JobSpec spec, std::string id = {});
  // A job as the newest one of this name was. kNotFound.
  Result<JobSpec> named(const std::string& name);
  Result<JobView> job(const std::string& id);  // kNotFound, as of all that follow
  Result<std::vector<JobView>> jobs(JobStore::Kind kind, const std::string& after, int64_t limit);  // newest first
  // kUnsupported when the job's state does not allow it: the message says which it has.
  Result<JobView> cancel(const std::string& id);
  Result<JobView> pause(const std::string& id);
  Result<JobView> resume(const std::string& id);
  Status remove(const std::string& id);
  Result<std::vector<JobLogLine>> log(const std::string& id, int64_t from, int64_t limit);

  bool allows_paths() const { return !options_.paths_below.empty(); }

 private:
  explicit Jobs(JobsOptions options);
  Result<std::vector<JobInputLine>> copy_input(const JobSpec& spec, const std::filesystem::path& target);

  const JobsOptions options_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<JobRunner> runner_;
};

// "job_0123…": 128 random bits behind a prefix.
std::string new_job_id(std::string_view prefix);
int64_t job_clock();  // seconds since 1970

}  // namespace quern
