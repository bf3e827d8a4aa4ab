#include "server/batches/runner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>

#include "base/status.h"

namespace quern::batches {
namespace {

using http::asio::awaitable;

constexpr int64_t kLinesAtOnce = 8;
constexpr int kTriesMax = 600;  // of a line that meets a full queue, one a second

struct LineRequest {
  std::string custom_id;
  http::Request request;
};

// {"custom_id","method","url","body"}; the text was checked when the batch was made.
Result<LineRequest> parse_line(const std::string& text, const std::string& endpoint) {
  QUERN_ASSIGN(Json line, parse_json(text, "line"));
  LineRequest result;
  result.custom_id = line.value("custom_id", "");
  result.request.method = "POST";
  result.request.path = endpoint;
  result.request.id = random_id("batch_req_");
  result.request.background = true;
  Json body = line.value("body", Json::object());
  body.erase("stream");
  result.request.body = dump_json(body);
  return result;
}

std::string result_line(const LineRequest& line, int status, const std::string& body) {
  const auto parsed = parse_json(body, "answer");
  Json response = {
      {"status_code", status}, {"request_id", line.request.id}, {"body", parsed ? *parsed : Json(nullptr)}};
  return dump_json(
      {{"id", line.request.id}, {"custom_id", line.custom_id}, {"response", std::move(response)}, {"error", nullptr}});
}

std::string error_line(const LineRequest& line, const std::string& message) {
  return dump_json({{"id", line.request.id},
                    {"custom_id", line.custom_id},
                    {"response", nullptr},
                    {"error", {{"code", "server_error"}, {"message", message}}}});
}

}  // namespace

// One line on its way. Shared by the task and the thread that waits for it.
struct BatchRunner::Line {
  int64_t number = 0;
  LineRequest request;
  bool started = false;
  int tries = 0;
  std::mutex mutex;
  std::condition_variable done;
  bool ended = false;  // guarded by mutex, like what follows
  int status = 0;
  std::string body;
};

void BatchRunner::start() {
  thread_ = std::thread([this] { run(); });
}

BatchRunner::~BatchRunner() {
  stop();
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

void BatchRunner::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void BatchRunner::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  background_.stop();  // lines that run end now, so that the thread does
  if (thread_.joinable()) thread_.join();
}

bool BatchRunner::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_ || woken_; });
  woken_ = false;
  return !stopping_;
}

// Of several servers with one database, the one that holds the lock runs the batches.
bool BatchRunner::holds_lock() {
  if (lock_path_.empty() || lock_fd_ >= 0) return true;
  const int fd = ::open(lock_path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    lock_fd_ = fd;
    return true;
  }
  if (fd >= 0) ::close(fd);
  return false;
}

void BatchRunner::run() {
  for (;;) {
    if (!holds_lock()) {
      if (!wait(std::chrono::seconds(5))) return;
      continue;
    }
    const auto worked = work();
    if (!worked) log_.write(LogLevel::kError, "batches: " + worked.error().message);
    const bool more = worked && *worked;
    if (!wait(std::chrono::milliseconds(more ? 0 : 5000))) return;
  }
}

Result<bool> BatchRunner::work() {
  QUERN_ASSIGN(auto batch, store_.next_unfinished());
  if (!batch) return false;
  return work_on(std::move(*batch));
}

Result<bool> BatchRunner::work_on(Json batch) {
  const std::string id = batch["id"].get<std::string>();
  if (batch["status"] == "cancelling") {
    QUERN_TRY(finish(std::move(batch), "cancelled"));
    return true;
  }
  if (unix_seconds() >= batch["expires_at"].get<int64_t>()) {
    QUERN_TRY(finish(std::move(batch), "expired"));
    return true;
  }
  QUERN_ASSIGN(auto lines, store_.open_lines(id, kLinesAtOnce));
  if (lines.empty()) {
    QUERN_TRY(finish(std::move(batch), "completed"));
    return true;
  }
  QUERN_TRY(run_lines(id, batch["endpoint"].get<std::string>(), std::move(lines)));
  // Read again: it may have been cancelled meanwhile.
  QUERN_ASSIGN(auto now, store_.batch(id));
  if (!now) return true;
  QUERN_ASSIGN(const BatchStore::Counts counts, store_.counts(id));
  (*now)["request_counts"] = {{"total", counts.total}, {"completed", counts.completed}, {"failed", counts.failed}};
  if ((*now)["status"] == "validating") {
    (*now)["status"] = "in_progress";
    (*now)["in_progress_at"] = unix_seconds();
  }
  QUERN_TRY(store_.update_unless_cancelling(*now));
  return true;
}

Status BatchRunner::run_lines(const std::string& batch_id, const std::string& endpoint, std::vector<OpenLine> open) {
  std::vector<std::shared_ptr<Line>> lines;
  for (const OpenLine& text : open) {
    auto line = std::make_shared<Line>();
    QUERN_ASSIGN(line->request, parse_line(text.text, endpoint));
    line->number = text.number;
    lines.push_back(line);
  }
  const auto begin = [this](const std::shared_ptr<Line>& line) {
    line->ended = false;
    const auto task = [this, line](DetachedReply& reply) -> awaitable<void> {
      try {
        co_await serve_(line->request.request, reply);
      } catch (const std::exception&) {
        // No answer: an error line.
      }
      const std::lock_guard lock(line->mutex);
      line->status = reply.out_of_time() ? 0 : reply.status();
      line->body = reply.body();
      line->ended = true;
      line->done.notify_all();
    };
    line->started = background_.start(task) != nullptr;
  };
  for (const auto& line : lines) begin(line);
  for (const auto& line : lines) {
    for (;;) {
      {
        std::unique_lock lock(line->mutex);
        if (line->started) line->done.wait(lock, [&] { return line->ended; });
      }
      const bool again = !line->started || line->status == 429 || line->status == 503;
      if (!again || ++line->tries > kTriesMax) break;
      if (!wait(std::chrono::seconds(1))) return {};  // stopping: the line stays open
      begin(line);
    }
    if (line->status == 0) continue;  // given up while stopping: it stays open
    const bool failed = line->status >= 400;
    const std::string result = line->body.empty() ? error_line(line->request, "no answer")
                                                  : result_line(line->request, line->status, line->body);
    QUERN_TRY(store_.set_result(batch_id, line->number, result, failed));
  }
  return {};
}

Status BatchRunner::finish(Json batch, const char* status) {
  const std::string id = batch["id"].get<std::string>();
  QUERN_ASSIGN(const BatchStore::Counts counts, store_.counts(id));
  batch["request_counts"] = {{"total", counts.total}, {"completed", counts.completed}, {"failed", counts.failed}};
  batch["finalizing_at"] = unix_seconds();
  for (const bool failed : {false, true}) {
    if ((failed ? counts.failed : counts.completed) == 0) continue;
    QUERN_ASSIGN(std::string text, store_.results(id, failed));
    const std::string name = fmt::format("{}_{}.jsonl", id, failed ? "error" : "output");
    QUERN_ASSIGN(const File file, store_.add_file(name, "batch_output", std::move(text)));
    batch[failed ? "error_file_id" : "output_file_id"] = file.id;
  }
  batch["status"] = status;
  batch[fmt::format("{}_at", status)] = unix_seconds();
  return store_.update_batch(batch);
}

}  // namespace quern::batches
