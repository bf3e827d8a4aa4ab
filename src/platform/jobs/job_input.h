// The lines of a job's input, in OpenAI's batch form: {"custom_id","method","url","body"}. Bytes from outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "platform/jobs/job.h"
#include "quern/status.h"

namespace quern {

inline constexpr size_t kJobLineBytesMax = 32u << 20;
inline constexpr int64_t kJobInputBytesMax = int64_t{4} << 30;

struct JobInputLine {
  int64_t number = 0;  // of the lines that say something, from 0
  int64_t offset = 0, bytes = 0;
  std::string model;
};

// Copies the lines of `text`, or of the file `path`, to `target`, and says where each stands there. Each is one that
// can run later: its url an endpoint (`endpoint`, unless that is empty), its custom_id the only one. Errors:
// kInvalidArgument ("line 7: url: …"), kIo.
Result<std::vector<JobInputLine>> copy_job_input(std::string_view text, const JobSpec& spec,
                                                 const std::filesystem::path& target);
Result<std::vector<JobInputLine>> copy_job_input_file(const std::filesystem::path& path, const JobSpec& spec,
                                                      const std::filesystem::path& target);

struct JobLineRequest {
  std::string custom_id, url;
  std::string body;  // JSON
};
// A line that was checked by the copy.
Result<JobLineRequest> parse_job_line(const std::string& text, const JobSpec& spec);

// Lines of the results: an answer with its status, or why there is none.
std::string job_result_line(const std::string& request_id, const std::string& custom_id, int status,
                            const std::string& body);
std::string job_error_line(const std::string& request_id, const std::string& custom_id, const std::string& message);

}  // namespace quern
