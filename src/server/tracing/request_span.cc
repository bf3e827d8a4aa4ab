#include "server/tracing/request_span.h"

#include <algorithm>
#include <random>

#include "fmt/format.h"

namespace quern {
namespace {

// The W3C forbids ids of zeros only.
uint64_t random_id_bits() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return std::max<uint64_t>(generator(), 1);
}

}  // namespace

RequestSpan::RequestSpan(std::string method, std::string route, const std::optional<TraceParent>& parent)
    : method_(std::move(method)),
      route_(std::move(route)),
      trace_id_(parent ? parent->trace_id : fmt::format("{:016x}{:016x}", random_id_bits(), random_id_bits())),
      span_id_(fmt::format("{:016x}", random_id_bits())),
      parent_span_id_(parent ? parent->span_id : "") {}

std::string RequestSpan::traceparent() const {
  return fmt::format("00-{}-{}-01", trace_id_, span_id_);
}

void RequestSpan::see_request(const std::string& model, const Request& request) {
  model_ = model;
  sampling_ = request.sampling;
  n_ = request.n;
  max_tokens_ = request.max_tokens;
  prompt_tokens_ += std::ssize(request.prompt_ids);
}

// Tokens are counted one by one, so that the span of an answer that was broken off tells what it had come to.
void RequestSpan::see_event(const Event& event) {
  if (event.token) {
    ++completion_tokens_;
    if (!first_token_seconds_) {
      first_token_seconds_ = std::chrono::duration<double>(event.time - begin_).count();
    }
  }
  if (!event.finish) return;
  const FinishEvent& finish = *event.finish;
  if (finish.index == 0) cached_tokens_ += finish.cached_tokens;
  queue_seconds_ = std::max(queue_seconds_.value_or(0), finish.queue_seconds);
  prefill_seconds_ = std::max(prefill_seconds_, finish.prefill_seconds);
  decode_seconds_ = std::max(decode_seconds_, finish.decode_seconds);
  finish_reasons_.emplace_back(finish_reason_name(finish.reason));
  if (finish.error) error_ = finish.error->message;
}

void RequestSpan::see_encoded(const std::string& model, int64_t prompt_tokens) {
  model_ = model;
  prompt_tokens_ += prompt_tokens;
}

void RequestSpan::finish(const End& end) {
  end_ = end;
  seconds_ = std::chrono::duration<double>(Clock::now() - begin_).count();
}

}  // namespace quern
