// What XXL-JOB's admin says to an executor, and what it reads. Source: the RESTful API of xxl-job-core 2.4 and 3.x
// (ExecutorBiz, AdminBiz). Pure; bytes from outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern::xxljob {

enum class BlockStrategy : uint8_t { kSerial, kDiscardLater, kCoverEarly };

// /run: one run of one of the admin's jobs.
struct Trigger {
  int64_t job_id = 0;
  int64_t log_id = 0, log_time = 0;  // of this run; milliseconds since 1970
  std::string handler;
  std::string params;
  BlockStrategy strategy = BlockStrategy::kSerial;
  int64_t timeout_s = 0;  // 0: none
};
// kInvalidArgument: a field is wrong, or the run is code from outside (a glueType that is not BEAN).
Result<Trigger> parse_trigger(std::string_view body);

struct LogQuery {
  int64_t log_id = 0, log_time = 0, from = 1;
};
Result<LogQuery> parse_log_query(std::string_view body);
Result<int64_t> parse_job_id(std::string_view body);  // of /idleBeat and /kill

inline constexpr int kDone = 200, kFailed = 500, kTimedOut = 502;

// {"code","msg","content"}; 3.3 and later read `data`.
std::string reply(int code, const std::string& message, const Json& content = nullptr);
std::string log_reply(int64_t from, int64_t to, const std::string& text, bool is_end);
bool is_done(std::string_view answer);  // of the admin: code 200

struct Ending {
  int64_t log_id = 0, log_time = 0;
  int code = kDone;
  std::string message;
};
std::string callback_body(const std::vector<Ending>& endings);
std::string registry_body(const std::string& app, const std::string& address);

}  // namespace quern::xxljob
