#include "base/check.h"
#include "base/json.h"
#include "platform/jobs/job.h"
#include "platform/jobs/window.h"
#include "server/xxljob/protocol.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

constexpr int64_t kNow = 1'700'000'000;

void run_window(std::string_view text) {
  const auto window = Window::parse(text);
  if (!window) return check_refusal(window.error());
  for (int32_t minute = 0; minute < kMinutesOfWeek; minute += 97) {
    const int32_t wait = window->minutes_until_open(minute);
    QUERN_CHECK(wait >= 0 && wait < kMinutesOfWeek);
    QUERN_CHECK((wait == 0) == window->is_open(minute));
  }
}

void read_spec(std::string_view text) {
  const auto json = parse_json(text, "job");
  if (!json) return check_refusal(json.error());
  const auto spec = job_spec_from_json(*json, kNow);
  if (!spec) return check_refusal(spec.error());
  QUERN_CHECK(spec->input_file_id.empty() != spec->input_path.empty());
  QUERN_CHECK(spec->max_concurrency >= 1 && spec->max_concurrency <= kJobConcurrencyMax);
  const Json stored = spec->to_json();
  QUERN_CHECK(stored_job_spec(dump_json(stored)).to_json() == stored);
}

void run_trigger(std::string_view text) {
  const auto trigger = xxljob::parse_trigger(text);
  if (!trigger) return check_refusal(trigger.error());
  QUERN_CHECK(trigger->log_id > 0 && trigger->timeout_s >= 0);
}

}  // namespace

void run_jobs(std::string_view text) {
  run_window(text);
  read_spec(text);
  run_trigger(text);
  (void)xxljob::parse_log_query(text);
  (void)xxljob::is_done(text);
}

}  // namespace quern::fuzz
