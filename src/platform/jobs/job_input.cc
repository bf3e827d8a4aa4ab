#include "platform/jobs/job_input.h"

#include <algorithm>
#include <fstream>
#include <unordered_set>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

std::string_view string_in(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? found->get_ref<const std::string&>() : std::string_view();
}

class InputCopy {
 public:
  InputCopy(const JobSpec& spec, const fs::path& target)
      : spec_(spec), target_(target), out_(target, std::ios::binary) {}

  Status take(std::string_view text) {
    ++number_;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") == std::string_view::npos) return {};
    if (std::ssize(lines_) == kJobLinesMax) return invalid_argument(fmt::format("has over {} lines", kJobLinesMax));
    if (text.size() > kJobLineBytesMax) return fault(fmt::format("is longer than {} bytes", kJobLineBytesMax));
    const auto line = parse_json(text, "line");
    if (!line) return fault(line.error().message);
    if (!line->is_object()) return fault("must be an object");
    const std::string_view id = string_in(*line, "custom_id"), url = string_in(*line, "url");
    if (id.empty() || id.size() > 512) return fault("custom_id: must be a string of 1 to 512 bytes");
    if (string_in(*line, "method") != "POST") return fault("method: must be POST");
    if (!spec_.endpoint.empty() && url != spec_.endpoint) {
      return fault(fmt::format("url: must be {}, as the batch's endpoint", spec_.endpoint));
    }
    if (std::ranges::find(kJobEndpoints, url) == kJobEndpoints.end()) {
      return fault(fmt::format("url: {} does not run in jobs", dump_json(Json(url.substr(0, 100)))));
    }
    const auto body = line->find("body");
    if (body == line->end() || !body->is_object()) return fault("body: must be an object");
    if (!ids_.emplace(id).second) return fault(fmt::format("custom_id {} is there twice", dump_json(Json(id))));
    std::string model(string_in(*body, "model"));
    if (model.empty()) model = spec_.model;
    if (model.size() > 256) return fault("model: is longer than 256 bytes");
    lines_.push_back({.number = std::ssize(lines_), .offset = offset_, .bytes = std::ssize(text), .model = model});
    offset_ += std::ssize(text) + 1;
    out_ << text << '\n';
    return {};
  }

  Result<std::vector<JobInputLine>> finish() {
    if (lines_.empty()) return invalid_argument("the file has no lines");
    out_.close();
    if (!out_) return io_error(fmt::format("{}: cannot be written", target_.string()));
    return std::move(lines_);
  }

 private:
  Status fault(const std::string& what) const { return invalid_argument(fmt::format("line {}: {}", number_, what)); }

  const JobSpec& spec_;
  const fs::path target_;
  std::ofstream out_;
  std::vector<JobInputLine> lines_;
  std::unordered_set<std::string> ids_;
  int64_t number_ = 0, offset_ = 0;
};

}  // namespace

Result<std::vector<JobInputLine>> copy_job_input(std::string_view text, const JobSpec& spec, const fs::path& target) {
  InputCopy copy(spec, target);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    QUERN_TRY(copy.take(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return copy.finish();
}

Result<std::vector<JobInputLine>> copy_job_input_file(const fs::path& path, const JobSpec& spec,
                                                      const fs::path& target) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(fmt::format("{}: cannot be read", path.string()));
  InputCopy copy(spec, target);
  std::string rest, piece(1u << 20, '\0');
  int64_t total = 0;
  while (in) {
    in.read(piece.data(), std::ssize(piece));
    total += in.gcount();
    if (total > kJobInputBytesMax) return invalid_argument(fmt::format("is longer than {} bytes", kJobInputBytesMax));
    rest.append(piece.data(), static_cast<size_t>(in.gcount()));
    size_t begin = 0;
    for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', begin)) {
      QUERN_TRY(copy.take(std::string_view(rest).substr(begin, end - begin)));
      begin = end + 1;
    }
    rest.erase(0, begin);
    if (rest.size() > kJobLineBytesMax) break;
  }
  if (!rest.empty()) QUERN_TRY(copy.take(rest));
  return copy.finish();
}

Result<JobLineRequest> parse_job_line(const std::string& text, const JobSpec& spec) {
  QUERN_ASSIGN(Json line, parse_json(text, "line"));
  if (!line.is_object()) return invalid_argument("line: must be an object");
  JobLineRequest request{
      .custom_id = std::string(string_in(line, "custom_id")), .url = std::string(string_in(line, "url")), .body = {}};
  Json body = line.value("body", Json::object());
  body.erase("stream");
  if (!spec.model.empty() && string_in(body, "model").empty()) body["model"] = spec.model;
  request.body = dump_json(body);
  return request;
}

std::string job_result_line(const std::string& request_id, const std::string& custom_id, int status,
                            const std::string& body) {
  const auto parsed = parse_json(body, "answer");
  const Json response = {
      {"status_code", status}, {"request_id", request_id}, {"body", parsed ? *parsed : Json(nullptr)}};
  return dump_json({{"id", request_id}, {"custom_id", custom_id}, {"response", response}, {"error", nullptr}});
}

std::string job_error_line(const std::string& request_id, const std::string& custom_id, const std::string& message) {
  return dump_json({{"id", request_id},
                    {"custom_id", custom_id},
                    {"response", nullptr},
                    {"error", {{"code", "server_error"}, {"message", message}}}});
}

}  // namespace quern
