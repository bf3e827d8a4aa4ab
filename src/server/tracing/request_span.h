// What one request is told as in a trace: an OpenTelemetry span of kind server, with the attributes of the gen_ai
// conventions under the names that vLLM sends (its SpanAttributes).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quern/engine.h"
#include "server/trace_context.h"

namespace quern {

// Lives with its request, on the strand of that connection.
class RequestSpan {
 public:
  // `parent`: what the client sent; without it the span begins a trace of its own.
  RequestSpan(std::string method, std::string route, const std::optional<TraceParent>& parent);

  void see_request(const std::string& model, const Request& request);  // one prompt that goes to the engine
  void see_event(const Event& event);                                  // of any of its streams
  void see_carried(const std::string& model) {
    model_ = model;
  }  // a worker's, which tells the rest in a span of its own
  void see_encoded(const std::string& model, int64_t prompt_tokens);
  // Instead of what was counted: for answers that are not what the engine's streams add up to.
  void set_completion_tokens(int64_t tokens) { completion_tokens_ = tokens; }

  struct End {
    int status = 0;  // 0: nothing was sent
    bool client_gone = false;
  };
  void finish(const End& end);

  std::string traceparent() const;  // for what is asked of others on the way

  std::string request_id, trace_state;
  std::string client;  // address; may be empty

 private:
  friend class SpanText;
  using Clock = std::chrono::steady_clock;

  std::string method_, route_;
  std::string trace_id_, span_id_, parent_span_id_;
  const std::chrono::system_clock::time_point start_ = std::chrono::system_clock::now();
  const Clock::time_point begin_ = Clock::now();
  double seconds_ = 0;
  End end_;

  std::string model_;
  std::optional<SamplingOptions> sampling_;  // of a generating request
  int32_t n_ = 0, max_tokens_ = 0;
  int64_t prompt_tokens_ = 0, completion_tokens_ = 0, cached_tokens_ = 0;
  std::optional<double> first_token_seconds_, queue_seconds_;
  double prefill_seconds_ = 0, decode_seconds_ = 0;
  std::vector<std::string> finish_reasons_;
  std::string error_;  // what the engine said of an answer that had begun
};

}  // namespace quern
