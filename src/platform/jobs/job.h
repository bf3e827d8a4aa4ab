// A batch job: lines of a file, each a request to a model, and how they shall run. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

enum class JobState : uint8_t {
  kQueued,         // waits for idle capacity
  kWaitingWindow,  // its window is closed
  kRunning,
  kPaused,     // until somebody resumes it
  kCompleted,  // every line has an answer or an error
  kFailed,     // it could not go on; what was answered is there
  kCancelled,
  kExpired,  // its deadline passed first
};
inline constexpr int kNumJobStates = 8;
const char* job_state_name(JobState state);  // "waiting_window"
JobState job_state_of(std::string_view name);
inline bool has_ended(JobState state) {
  return state >= JobState::kCompleted;
}

// The paths of inference that a line may ask. Lines run without a key: no other may be among them.
inline constexpr std::array<std::string_view, 6> kJobEndpoints = {
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank", "/v1/score"};

inline constexpr int32_t kJobLinesMax = 1'000'000;
inline constexpr int32_t kJobConcurrencyMax = 64;

struct JobSpec {
  std::string name;                     // one that was used before becomes the newest of that name; empty: the id
  std::string input_file_id;            // of /v1/files; or
  std::string input_path;               // a file of the server
  std::string output_path, error_path;  // with input_path; absent: beside it
  std::string model;                    // of lines that name none
  int32_t priority = 0;                 // the higher goes first
  std::string window;                   // as Window::parse() reads it
  int64_t deadline = 0;                 // seconds since 1970; 0: none
  int32_t max_concurrency = 8;          // lines at once
  int32_t busy_concurrency = 0;         // lines at once while clients use the model
  int32_t retries = 2;                  // of a line that the server failed
  // Of OpenAI's batches:
  std::string endpoint;  // of every line; empty: each its own
  Json metadata;

  bool is_batch() const { return !endpoint.empty(); }
  Json to_json() const;  // stored_job_spec() reads it
};

// Fields as above, but `deadline` may be a time from now: "90m", "24h", "7d". Errors: kInvalidArgument ("window: …"),
// for fields that are not known too.
Result<JobSpec> job_spec_from_json(const Json& body, int64_t now);
JobSpec stored_job_spec(std::string_view json);

// The spec with whole paths, all below `folder`. Errors: kInvalidArgument, kNotFound naming the field.
Result<JobSpec> with_paths_below(JobSpec spec, const std::filesystem::path& folder);

struct JobView {
  std::string id;
  int64_t number = 0;  // the lower is older
  JobSpec spec;
  JobState state = JobState::kQueued;
  int64_t created = 0, started = 0, ended = 0;  // seconds since 1970; 0: not yet
  int64_t total = 0, done = 0, failed = 0;      // lines: done were answered well
  std::vector<std::string> models;              // of its lines
  std::string output_file_id, error_file_id;
  std::string message;     // why it waits or how it ended, one line
  bool published = false;  // results are where they belong
};

struct JobLogLine {
  int64_t number = 0;  // from 1
  int64_t time = 0;
  std::string text;
};

}  // namespace quern
