#include "server/tracing/exporter.h"

#include "base/status.h"
#include "platform/http_client.h"

namespace quern {
namespace {

using Clock = std::chrono::steady_clock;

// As OpenTelemetry's batch processor has them.
constexpr size_t kWaitingMax = 2048;
constexpr size_t kBatch = 512;

constexpr std::chrono::seconds kFarewellTime{3};  // for what waits when the server stops
constexpr int64_t kExchangeSeconds = 10;
constexpr std::chrono::milliseconds kPauses[] = {std::chrono::milliseconds(500), std::chrono::seconds(2)};

}  // namespace

SpanExporter::SpanExporter(TracingSettings settings, SpanCounts& counts, const Log& log)
    : settings_(std::move(settings)), counts_(counts), log_(log), thread_([this] { run(); }) {}

void SpanExporter::add(RequestSpan span) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kWaitingMax) {
      counts_.dropped.fetch_add(1);
      return;
    }
    waiting_.push_back(std::move(span));
    if (waiting_.size() != 1 && waiting_.size() < kBatch) return;  // the thread knows of the first
  }
  changed_.notify_one();
}

void SpanExporter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (deadline_.load() == 0) deadline_.store((Clock::now() + kFarewellTime).time_since_epoch().count());
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool SpanExporter::out_of_time() const {
  const auto deadline = deadline_.load();
  return deadline != 0 && Clock::now().time_since_epoch().count() > deadline;
}

bool SpanExporter::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

// Waits for spans; an empty batch means the end.
std::vector<RequestSpan> SpanExporter::take_batch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
  changed_.wait_for(lock, settings_.delay, [this] { return stopping_ || waiting_.size() >= kBatch; });
  std::vector<RequestSpan> batch;
  while (!waiting_.empty() && batch.size() < kBatch) {
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return batch;
}

void SpanExporter::run() {
  for (;;) {
    const std::vector<RequestSpan> batch = take_batch();
    if (batch.empty()) return;
    send(batch);
  }
}

void SpanExporter::send(const std::vector<RequestSpan>& batch) {
  const std::string body = otlp_body(settings_.resource, batch);
  Status result = try_send(body);
  for (const auto time : kPauses) {
    const bool may_pass = !result && result.error().code == ErrorCode::kUnavailable;
    if (!may_pass || !pause(time)) break;
    result = try_send(body);
  }
  (result ? counts_.sent : counts_.dropped).fetch_add(batch.size());
}

Status SpanExporter::try_send(const std::string& body) {
  if (out_of_time()) return make_error(ErrorCode::kDeadlineExceeded, "no time is left");
  HttpOptions options{.headers = settings_.headers, .seconds_max = kExchangeSeconds};
  options.give_up = [this] { return out_of_time(); };
  const auto answer = http_post(settings_.url, "application/json", body, options);
  // Said once when it begins to fail and once when it ends, not for each batch.
  if (!answer && !failing_) log_.write(LogLevel::kWarning, "spans are not delivered: " + answer.error().message);
  if (answer && failing_) log_.write(LogLevel::kInfo, "spans are delivered again");
  failing_ = !answer;
  if (!answer) return std::unexpected(answer.error());
  return {};
}

}  // namespace quern
