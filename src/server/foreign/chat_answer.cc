#include "server/foreign/chat_answer.h"

#include <algorithm>

#include "base/status.h"

namespace quern::foreign {
namespace {

using tools::OutputDelta;

constexpr size_t kAnswerBytesMax = 64u << 20;
constexpr int32_t kCallsMax = 1024;
constexpr size_t kMessageBytesMax = 4096;  // of an error

ApiError no_answer(std::string_view why) {
  return {.status = 502,
          .message = fmt::format("the worker of the model sent what is no answer: {}", why),
          .type = "worker_error",
          .code = "bad_answer"};
}

std::string text_in(const Json& object, const char* name) {
  const auto value = object.is_object() ? object.find(name) : object.end();
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

const Json* object_in(const Json& object, const char* name) {
  const auto value = object.find(name);
  return value != object.end() && value->is_object() ? &*value : nullptr;
}

int32_t count_in(const Json& object, const char* name) {
  const auto value = object.find(name);
  if (value == object.end() || !value->is_number()) return 0;
  return static_cast<int32_t>(std::clamp(value->get<double>(), 0.0, 2e9));
}

double seconds_in(const Json& object, const char* name_ms) {
  const auto value = object.find(name_ms);
  return value != object.end() && value->is_number() ? std::clamp(value->get<double>() / 1000, 0.0, 1e9) : 0;
}

// {"error":{"message":…}}, {"error":"…"}, {"message":…}, FastAPI's {"detail":…}
void read_error(const Json& body, ApiError& error) {
  if (!body.is_object()) return;
  const Json* inner = object_in(body, "error");
  const Json& object = inner != nullptr ? *inner : body;
  std::string message = text_in(object, "message");
  if (message.empty()) message = text_in(body, "error");
  if (message.empty()) message = text_in(body, "detail");
  const auto detail = body.find("detail");
  if (message.empty() && detail != body.end()) message = dump_json(*detail);
  if (message.empty()) return;
  error.message = std::move(message);
  if (const std::string type = text_in(object, "type"); !type.empty()) error.type = type;
  error.param = text_in(object, "param");
  error.code = text_in(object, "code");
}

const char* type_of_status(int status) {
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable";
  return status < 500 ? "invalid_request_error" : "internal_error";
}

// What web frameworks say of a path that nobody has written a route for.
bool is_no_route(int status, std::string_view message) {
  if (status == 405) return true;
  constexpr std::string_view known[] = {"", "Not Found", "File Not Found", "404 page not found"};
  return status == 404 && std::ranges::find(known, message) != std::end(known);
}

}  // namespace

ApiResult<void> ChatAnswer::read_call(const Json& call, size_t place, tools::OutputDeltas& deltas) {
  const Json* function = call.is_object() ? object_in(call, "function") : nullptr;
  if (function == nullptr) return std::unexpected(no_answer("a tool call without a function"));
  const auto given = call.find("index");
  const auto index =
      given != call.end() && given->is_number_integer() ? given->get<int64_t>() : static_cast<int64_t>(place);
  if (index < call_index_) return std::unexpected(no_answer("tool calls in each other"));
  if (index > call_index_) {
    const std::string name = text_in(*function, "name");
    if (name.empty()) return std::unexpected(no_answer("a tool call without a name"));
    if (calls_ == kCallsMax) return std::unexpected(no_answer("too many tool calls"));
    call_index_ = index;
    in_call_ = true;
    deltas.push_back({.kind = OutputDelta::Kind::kCall, .text = name, .call = calls_++});
  }
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || arguments->is_null()) return {};
  std::string text = arguments->is_string() ? arguments->get<std::string>() : dump_json(*arguments);
  if (text.empty()) return {};
  if (!in_call_) return std::unexpected(no_answer("arguments behind their call's end"));
  deltas.push_back({.kind = OutputDelta::Kind::kArguments, .text = std::move(text), .call = calls_ - 1});
  return {};
}

ApiResult<void> ChatAnswer::read_said(const Json& said, tools::OutputDeltas& deltas) {
  std::string thought = text_in(said, "reasoning_content");
  if (thought.empty()) thought = text_in(said, "reasoning");
  std::string text = text_in(said, "content");
  if (!thought.empty() || !text.empty()) in_call_ = false;
  if (!thought.empty()) deltas.push_back({.kind = OutputDelta::Kind::kReasoning, .text = std::move(thought)});
  if (!text.empty()) deltas.push_back({.kind = OutputDelta::Kind::kContent, .text = std::move(text)});
  const auto calls = said.find("tool_calls");
  if (calls == said.end() || !calls->is_array()) return {};
  for (size_t i = 0; i < calls->size(); ++i) {
    if (auto read = read_call((*calls)[i], i, deltas); !read) return read;
  }
  return {};
}

void ChatAnswer::read_counts(const Json& object) {
  if (const Json* usage = object_in(object, "usage")) {
    finish_.prompt_tokens = count_in(*usage, "prompt_tokens");
    finish_.output_tokens = count_in(*usage, "completion_tokens");
    const Json* details = object_in(*usage, "prompt_tokens_details");
    const int32_t cached = details != nullptr ? count_in(*details, "cached_tokens") : 0;
    finish_.cached_tokens = std::min(cached, finish_.prompt_tokens);
  }
  if (const Json* timings = object_in(object, "timings")) {  // llama-server's
    finish_.prefill_seconds = seconds_in(*timings, "prompt_ms");
    finish_.decode_seconds = seconds_in(*timings, "predicted_ms");
  }
}

ApiResult<std::vector<PartDelta>> ChatAnswer::add(const Json& object) {
  if (!object.is_object()) return std::unexpected(no_answer("it is no object"));
  if (const auto error = object.find("error"); error != object.end() && !error->is_null()) {
    ApiError failed{.status = 500, .message = "the worker of the model failed", .type = "internal_error"};
    read_error(object, failed);
    return std::unexpected(std::move(failed));
  }
  read_counts(object);
  const auto choices = object.find("choices");
  if (choices == object.end() || !choices->is_array()) return std::unexpected(no_answer("it has no choices"));
  std::vector<PartDelta> result;
  if (choices->empty()) return result;  // of a stream, the count of its tokens
  const Json& choice = choices->front();
  if (!choice.is_object()) return std::unexpected(no_answer("a choice is no object"));
  tools::OutputDeltas deltas;
  for (const char* name : {"message", "delta"}) {
    const Json* said = object_in(choice, name);
    if (said == nullptr) continue;
    if (auto read = read_said(*said, deltas); !read) return std::unexpected(read.error());
  }
  if (std::string text = text_in(choice, "text"); !text.empty()) {
    in_call_ = false;
    deltas.push_back({.kind = OutputDelta::Kind::kContent, .text = std::move(text)});
  }
  for (const OutputDelta& delta : deltas) bytes_ += delta.text.size();
  if (bytes_ > kAnswerBytesMax) return std::unexpected(no_answer("it is too long"));
  if (!deltas.empty() && first_ == begin_) first_ = Clock::now();
  if (const std::string why = text_in(choice, "finish_reason"); !why.empty()) {
    has_ended_ = true;
    finish_.reason = why == "length" ? FinishReason::kLength : FinishReason::kStop;
    finish_.stop_text = text_in(choice, "stop_reason");  // vLLM's: the string that ended it
  }
  parser_->hand(std::move(deltas));
  return reader_.push("");
}

FinishEvent ChatAnswer::finish() const {
  FinishEvent finish = finish_;
  if (finish.decode_seconds > 0) return finish;
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  finish.prefill_seconds = seconds(first_ - begin_);
  finish.decode_seconds = seconds(Clock::now() - first_);
  return finish;
}

ApiError error_of(const std::string& engine, const std::string& path, int status, std::string_view body) {
  ApiError error{.status = status, .message = "", .type = type_of_status(status)};
  if (const auto parsed = parse_json(body, "error")) read_error(*parsed, error);
  if (is_no_route(status, error.message)) {
    return {.status = 404, .message = fmt::format("{}: engine {} of the model has no such route", path, engine)};
  }
  if (error.message.empty()) error.message = body.empty() ? fmt::format("status {}", status) : std::string(body);
  if (error.message.size() > kMessageBytesMax) error.message.resize(kMessageBytesMax);
  if (status == 401 || status == 403) {
    return {.status = 502,
            .message = "the server of the model refused the key of its launch: " + error.message,
            .type = "worker_error",
            .code = "worker_refused_key"};
  }
  // llama-server's, for what it was not started for: to ask again would not help.
  if (status == 501) {
    error.status = 400;
    error.type = "invalid_request_error";
  }
  return error;
}

}  // namespace quern::foreign
