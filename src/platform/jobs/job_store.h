// Jobs in SQLite: what is wished, which lines are answered, and where their answers end in the file of results. What
// stands here is what happened; the rest of a file behind it is a line that was cut. Thread-safe; several processes may
// look, one runs the jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/database.h"
#include "platform/jobs/job.h"
#include "platform/jobs/job_input.h"
#include "quern/status.h"

namespace quern {

// A line whose answer has just been written to the file of results.
struct AnsweredLine {
  int64_t number = 0;
  bool failed = false;
  int64_t offset = 0, bytes = 0;  // in the file, the line's end not counted
};

class JobStore {
 public:
  static constexpr int64_t kUnfinishedMax = 1000;
  static constexpr int64_t kEndedMax = 5000;  // of more, the oldest are forgotten
  static constexpr int64_t kLogLinesMax = 10'000;

  static Result<std::unique_ptr<JobStore>> open(const std::filesystem::path& path);

  // kResourceExhausted when too many wait.
  Status add(const JobView& job, const std::vector<JobInputLine>& lines);
  Result<std::optional<JobView>> job(const std::string& id);
  // Newest first. `kind`: all, or batches only.
  enum class Kind : uint8_t { kAll, kBatches };
  Result<std::vector<JobView>> jobs(Kind kind, const std::string& after, int64_t limit);
  Result<std::optional<JobView>> newest_named(const std::string& name);
  // Those that the runner has to look at: not ended, or ended and not published.
  Result<std::vector<JobView>> open_jobs();
  Result<std::vector<std::string>> forget_old();  // ids
  Status remove(const std::string& id);

  // Sets the state unless the job has ended or, for a change of the runner's, somebody has paused it. false: nothing
  // changed.
  enum class By : uint8_t { kPerson, kRunner };
  Result<bool> set_state(const std::string& id, JobState state, By by, const std::string& message, int64_t now);
  Status set_message(const std::string& id, const std::string& message);
  // The end: results are where they belong, the lines are forgotten. A cancelled job stays one.
  Status publish(const std::string& id, JobState state, const std::string& output_file_id,
                 const std::string& error_file_id, const std::string& message, int64_t now);

  Result<std::map<std::string, int64_t>> open_lines_by_model(const std::string& id);
  Result<std::vector<JobInputLine>> open_lines(const std::string& id, const std::string& model, int64_t after,
                                               int64_t limit);
  Result<int64_t> results_bytes(const std::string& id);
  // All or nothing.
  Status answered(const std::string& id, const std::vector<AnsweredLine>& lines, int64_t results_bytes);
  Result<std::vector<AnsweredLine>> answered_lines(const std::string& id, int64_t after, int64_t limit);  // by number

  Status log(const std::string& id, int64_t now, const std::string& text);
  Result<std::vector<JobLogLine>> log_lines(const std::string& id, int64_t from, int64_t limit);

 private:
  JobStore() = default;
  Result<std::vector<JobView>> select(const std::string& rest, const std::vector<Database::Value>& values);

  std::mutex mutex_;  // held for a transaction, and so for every other statement
  std::unique_ptr<Database> database_;
};

}  // namespace quern
