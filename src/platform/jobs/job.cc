#include "platform/jobs/job.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/status.h"
#include "platform/jobs/window.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateNames[] = {"queued",    "waiting_window", "running",   "paused",
                                       "completed", "failed",         "cancelled", "expired"};
constexpr size_t kSpecTextMax = 4096;
constexpr int32_t kPriorityMax = 1000;

// The first fault is kept; after it nothing is read.
class SpecReader {
 public:
  explicit SpecReader(const Json& body) : body_(body) {}

  void text(const char* name, std::string& target, size_t size_max = kSpecTextMax) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return fault(name, "must be a string");
    target = value->get<std::string>();
    if (target.size() > size_max) return fault(name, fmt::format("is longer than {} bytes", size_max));
    if (std::ranges::any_of(target, [](unsigned char c) { return c < 0x20; })) fault(name, "has control characters");
  }
  void number(const char* name, int32_t& target, int32_t min, int32_t max) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_number_integer() || value->get<double>() < min || value->get<double>() > max) {
      return fault(name, fmt::format("must be a whole number from {} to {}", min, max));
    }
    target = value->get<int32_t>();
  }
  void deadline(const char* name, int64_t& target, int64_t now) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (value->is_number_integer() && value->get<double>() >= 0 && value->get<double>() < 1e12) {
      target = value->get<int64_t>();
    } else if (const auto seconds = value->is_string() ? duration(value->get<std::string>()) : std::nullopt) {
      target = now + *seconds;
    } else {
      return fault(name, "must be seconds since 1970, or a time from now as 90m, 24h, 7d");
    }
    if (target != 0 && target <= now) fault(name, "has passed");
  }
  void refuse_unknown() {
    for (const auto& item : body_.items()) {
      if (std::ranges::find(known_, item.key()) == known_.end()) {
        std::string name = item.key().substr(0, 64);
        std::ranges::replace_if(name, [](unsigned char c) { return c < 0x20; }, '?');
        return fault(name.c_str(), "this field is not supported");
      }
    }
  }
  void fault(const char* name, const std::string& what) {
    if (!error_) error_ = Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, what)};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Json* find(const char* name) {
    known_.emplace_back(name);
    const auto found = body_.find(name);
    return error_ || found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  static std::optional<int64_t> duration(const std::string& text) {
    int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end + 1 != text.data() + text.size() || count < 1 || count > 1'000'000) {
      return std::nullopt;
    }
    switch (*end) {
      case 's': return count;
      case 'm': return count * 60;
      case 'h': return count * 3600;
      case 'd': return count * 86400;
      default: return std::nullopt;
    }
  }

  const Json& body_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [at, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return at == folder.end() && rest != path.end();
}

// Of a file that may not be there yet.
Result<std::string> target_path(const std::string& text, const char* field, const fs::path& folder) {
  std::error_code error;
  const fs::path path = folder / text;
  const fs::path parent = fs::canonical(path.parent_path(), error);
  if (error) return not_found(fmt::format("{}: {} is no folder", field, path.parent_path().string()));
  const fs::path whole = parent / path.filename();
  if (path.filename().empty() || path.filename() == ".." || !is_below(whole, folder)) {
    return invalid_argument(fmt::format("{}: {} is not below {}", field, text, folder.string()));
  }
  const fs::file_status status = fs::symlink_status(whole, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return invalid_argument(fmt::format("{}: {} is no plain file", field, text));
  }
  return whole.string();
}

}  // namespace

const char* job_state_name(JobState state) {
  return kStateNames[static_cast<size_t>(state)];
}

JobState job_state_of(std::string_view name) {
  for (int i = 0; i < kNumJobStates; ++i) {
    if (name == kStateNames[i]) return static_cast<JobState>(i);
  }
  return JobState::kFailed;
}

Json JobSpec::to_json() const {
  return {{"name", name},
          {"input_file_id", input_file_id},
          {"input_path", input_path},
          {"output_path", output_path},
          {"error_path", error_path},
          {"model", model},
          {"priority", priority},
          {"window", window},
          {"deadline", deadline},
          {"max_concurrency", max_concurrency},
          {"busy_concurrency", busy_concurrency},
          {"retries", retries},
          {"endpoint", endpoint},
          {"metadata", metadata}};
}

Result<JobSpec> job_spec_from_json(const Json& body, int64_t now) {
  if (!body.is_object()) return invalid_argument("the request body must be a JSON object");
  SpecReader reader(body);
  JobSpec spec;
  reader.text("name", spec.name, 128);
  reader.text("input_file_id", spec.input_file_id, 128);
  reader.text("input_path", spec.input_path);
  reader.text("output_path", spec.output_path);
  reader.text("error_path", spec.error_path);
  reader.text("model", spec.model, 256);
  reader.number("priority", spec.priority, -kPriorityMax, kPriorityMax);
  reader.text("window", spec.window, 512);
  reader.deadline("deadline", spec.deadline, now);
  reader.number("max_concurrency", spec.max_concurrency, 1, kJobConcurrencyMax);
  reader.number("busy_concurrency", spec.busy_concurrency, 0, kJobConcurrencyMax);
  reader.number("retries", spec.retries, 0, 100);
  reader.refuse_unknown();
  if (spec.input_file_id.empty() == spec.input_path.empty()) {
    reader.fault("input_file_id", "one of input_file_id and input_path must be there");
  }
  if (spec.input_path.empty() && !spec.output_path.empty()) reader.fault("output_path", "only with input_path");
  if (spec.input_path.empty() && !spec.error_path.empty()) reader.fault("error_path", "only with input_path");
  if (reader.error()) return std::unexpected(*reader.error());
  QUERN_TRY(Window::parse(spec.window));
  return spec;
}

JobSpec stored_job_spec(std::string_view text) {
  JobSpec spec;
  const auto json = parse_json(text, "stored job");
  if (!json || !json->is_object()) return spec;
  spec.name = json->value("name", "");
  spec.input_file_id = json->value("input_file_id", "");
  spec.input_path = json->value("input_path", "");
  spec.output_path = json->value("output_path", "");
  spec.error_path = json->value("error_path", "");
  spec.model = json->value("model", "");
  spec.priority = json->value("priority", 0);
  spec.window = json->value("window", "");
  spec.deadline = json->value("deadline", int64_t{0});
  spec.max_concurrency = json->value("max_concurrency", 8);
  spec.busy_concurrency = json->value("busy_concurrency", 0);
  spec.retries = json->value("retries", 2);
  spec.endpoint = json->value("endpoint", "");
  spec.metadata = json->value("metadata", Json());
  return spec;
}

Result<JobSpec> with_paths_below(JobSpec spec, const fs::path& folder) {
  std::error_code error;
  const fs::path input = fs::canonical(folder / spec.input_path, error);
  if (error) return not_found(fmt::format("input_path: {} is not there", spec.input_path));
  if (!is_below(input, folder)) {
    return invalid_argument(fmt::format("input_path: {} is not below {}", spec.input_path, folder.string()));
  }
  if (!fs::is_regular_file(input, error)) {
    return invalid_argument(fmt::format("input_path: {} is no plain file", spec.input_path));
  }
  spec.input_path = input.string();
  if (spec.output_path.empty()) spec.output_path = spec.input_path + ".output.jsonl";
  if (spec.error_path.empty()) spec.error_path = spec.input_path + ".error.jsonl";
  QUERN_ASSIGN(spec.output_path, target_path(spec.output_path, "output_path", folder));
  QUERN_ASSIGN(spec.error_path, target_path(spec.error_path, "error_path", folder));
  if (spec.output_path == spec.input_path || spec.error_path == spec.input_path ||
      spec.output_path == spec.error_path) {
    return invalid_argument("output_path: input, output and errors must be three files");
  }
  return spec;
}

}  // namespace quern
