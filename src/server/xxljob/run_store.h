// Runs that XXL-JOB's admin asked for, in SQLite: what was taken runs and is reported, whenever this process ends.
// Thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/database.h"
#include "server/xxljob/protocol.h"

namespace quern::xxljob {

struct Run {
  Trigger trigger;
  enum class State : uint8_t { kWaiting, kRunning, kEnded };
  State state = State::kWaiting;
  std::string target;   // the job or the model that it is about
  int64_t started = 0;  // seconds since 1970
  int code = 0;
  std::string message;
};

class RunStore {
 public:
  static constexpr int64_t kOpenMax = 1000;
  static constexpr int64_t kEndedMax = 10'000;

  static Result<std::unique_ptr<RunStore>> open(const std::filesystem::path& path);

  // false: a run of this log id and time is there. kResourceExhausted when too many wait.
  Result<bool> add(const Trigger& trigger);
  Result<std::vector<Run>> open_runs();  // waiting and running, oldest first
  Result<std::optional<Run>> find(int64_t log_id, int64_t log_time);
  Status begin(const Trigger& trigger, const std::string& target, int64_t now);
  Status end(const Trigger& trigger, int code, const std::string& message);  // one that has ended stays as it is
  Result<std::vector<Ending>> untold(int64_t limit);
  Status told(const std::vector<Ending>& endings);

 private:
  Result<std::vector<Run>> select(const std::string& rest, const std::vector<Database::Value>& values);
  std::unique_ptr<Database> database_;
};

}  // namespace quern::xxljob
