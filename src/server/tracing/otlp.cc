#include "server/tracing/otlp.h"

#include "base/json.h"
#include "fmt/format.h"

namespace quern {
namespace {

constexpr int kServerKind = 2;   // SPAN_KIND_SERVER
constexpr int kErrorStatus = 2;  // STATUS_CODE_ERROR
constexpr const char* kVersion = "0.1.0";

class AttributeList {
 public:
  void text(const char* key, const std::string& value) {
    if (!value.empty()) add(key, {{"stringValue", value}});
  }
  void integer(const char* key, int64_t value) { add(key, {{"intValue", std::to_string(value)}}); }
  void number(const char* key, double value) { add(key, {{"doubleValue", value}}); }
  void texts(const char* key, const std::vector<std::string>& values) {
    Json list = Json::array();
    for (const std::string& value : values) list.push_back({{"stringValue", value}});
    add(key, {{"arrayValue", {{"values", std::move(list)}}}});
  }
  Json take() { return std::move(list_); }

 private:
  void add(const char* key, Json value) { list_.push_back({{"key", key}, {"value", std::move(value)}}); }
  Json list_ = Json::array();
};

}  // namespace

// Reads a span.
class SpanText {
 public:
  explicit SpanText(const RequestSpan& span) : span_(span) {}
  Json json() const;

 private:
  Json attributes() const;
  void add_http(AttributeList& list) const;
  void add_generation(AttributeList& list) const;
  bool failed() const { return span_.end_.status >= 500 || !span_.error_.empty(); }
  const RequestSpan& span_;
};

void SpanText::add_http(AttributeList& list) const {
  list.text("http.request.method", span_.method_);
  list.text("http.route", span_.route_);
  if (span_.end_.status != 0) list.integer("http.response.status_code", span_.end_.status);
  list.text("client.address", span_.client);
  if (failed()) {
    list.text("error.type", span_.end_.status >= 500 ? std::to_string(span_.end_.status) : "generation_failed");
  } else if (span_.end_.client_gone) {
    list.text("error.type", "client_gone");
  }
}

void SpanText::add_generation(AttributeList& list) const {
  list.number("gen_ai.request.temperature", span_.sampling_->temperature);
  list.number("gen_ai.request.top_p", span_.sampling_->top_p);
  list.integer("gen_ai.request.n", span_.n_);
  if (span_.max_tokens_ > 0) list.integer("gen_ai.request.max_tokens", span_.max_tokens_);
  list.integer("gen_ai.usage.completion_tokens", span_.completion_tokens_);
  list.integer("gen_ai.usage.cached_tokens", span_.cached_tokens_);
  if (!span_.finish_reasons_.empty()) list.texts("gen_ai.response.finish_reasons", span_.finish_reasons_);
  if (span_.first_token_seconds_) list.number("gen_ai.latency.time_to_first_token", *span_.first_token_seconds_);
  if (!span_.queue_seconds_) return;
  list.number("gen_ai.latency.time_in_queue", *span_.queue_seconds_);
  list.number("gen_ai.latency.time_in_model_prefill", span_.prefill_seconds_);
  list.number("gen_ai.latency.time_in_model_decode", span_.decode_seconds_);
  list.number("gen_ai.latency.time_in_model_inference", span_.prefill_seconds_ + span_.decode_seconds_);
}

Json SpanText::attributes() const {
  AttributeList list;
  add_http(list);
  list.text("gen_ai.request.id", span_.request_id);
  list.number("gen_ai.latency.e2e", span_.seconds_);
  if (span_.model_.empty()) return list.take();  // it did not get as far as a model
  list.text("gen_ai.request.model", span_.model_);
  list.text("gen_ai.response.model", span_.model_);
  list.integer("gen_ai.usage.prompt_tokens", span_.prompt_tokens_);
  if (span_.sampling_) add_generation(list);
  return list.take();
}

Json SpanText::json() const {
  using std::chrono::duration_cast, std::chrono::nanoseconds;
  const int64_t start = duration_cast<nanoseconds>(span_.start_.time_since_epoch()).count();
  const auto duration = static_cast<int64_t>(span_.seconds_ * 1e9);
  Json span = {{"traceId", span_.trace_id_}, {"spanId", span_.span_id_}};
  if (!span_.parent_span_id_.empty()) span["parentSpanId"] = span_.parent_span_id_;
  if (!span_.trace_state.empty()) span["traceState"] = span_.trace_state;
  span["name"] = fmt::format("{} {}", span_.method_, span_.route_);
  span["kind"] = kServerKind;
  span["startTimeUnixNano"] = std::to_string(start);
  span["endTimeUnixNano"] = std::to_string(start + duration);
  span["attributes"] = attributes();
  span["status"] = Json::object();
  if (failed()) {
    span["status"]["code"] = kErrorStatus;
    if (!span_.error_.empty()) span["status"]["message"] = span_.error_;
  }
  return span;
}

std::string otlp_body(const TraceAttributes& resource, std::span<const RequestSpan> spans) {
  AttributeList about;
  for (const auto& [key, value] : resource) about.text(key.c_str(), value);
  Json list = Json::array();
  for (const RequestSpan& span : spans) list.push_back(SpanText(span).json());
  Json scope = {{"scope", {{"name", "quern"}, {"version", kVersion}}}, {"spans", std::move(list)}};
  Json entry = {{"resource", {{"attributes", about.take()}}}, {"scopeSpans", Json::array({std::move(scope)})}};
  return dump_json({{"resourceSpans", Json::array({std::move(entry)})}});
}

}  // namespace quern
