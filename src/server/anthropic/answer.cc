#include "server/anthropic/answer.h"

#include "base/status.h"

namespace quern::anthropic {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

Json error_json(const ApiError& error) {
  return {{"type", "error"}, {"error", {{"type", error_type(error.status)}, {"message", error.message}}}};
}

std::string event(const char* type, Json fields) {
  Json data = {{"type", type}};
  data.update(fields);
  return fmt::format("event: {}\ndata: {}\n\n", type, dump_json(data));
}

Json stop_fields(const FinishEvent& finish) {
  const bool by_string = finish.reason == FinishReason::kStop && !finish.stop_text.empty();
  const char* reason = finish.reason == FinishReason::kLength ? "max_tokens" : by_string ? "stop_sequence" : "end_turn";
  return {{"stop_reason", reason}, {"stop_sequence", by_string ? Json(finish.stop_text) : Json(nullptr)}};
}

// Tokens read from the cache do not count as input tokens.
Json usage_json(int32_t prompt_tokens, int32_t cached_tokens, int32_t output_tokens) {
  return {{"input_tokens", prompt_tokens - cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached_tokens},
          {"output_tokens", output_tokens}};
}

Json message_json(const MessageHead& head, Json content, Json usage) {
  return {{"id", head.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", head.model},
          {"content", std::move(content)},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", std::move(usage)}};
}

}  // namespace

std::string error_body(const ApiError& error) {
  return dump_json(error_json(error));
}

Json message_body(const MessageHead& head, const std::string& text, const FinishEvent& finish) {
  Json content = Json::array();
  content.push_back({{"type", "text"}, {"text", text}});
  Json body = message_json(head, std::move(content),
                           usage_json(finish.prompt_tokens, finish.cached_tokens, finish.output_tokens));
  body.update(stop_fields(finish));
  return body;
}

std::string start_events(const MessageHead& head, int32_t prompt_tokens) {
  return event("message_start", {{"message", message_json(head, Json::array(), usage_json(prompt_tokens, 0, 0))}}) +
         event("content_block_start", {{"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}}) +
         event("ping", Json::object());
}

std::string text_event(const std::string& text) {
  return event("content_block_delta", {{"index", 0}, {"delta", {{"type", "text_delta"}, {"text", text}}}});
}

std::string end_events(const FinishEvent& finish) {
  return event("content_block_stop", {{"index", 0}}) +
         event("message_delta",
               {{"delta", stop_fields(finish)},
                {"usage", usage_json(finish.prompt_tokens, finish.cached_tokens, finish.output_tokens)}}) +
         event("message_stop", Json::object());
}

std::string error_event(const ApiError& error) {
  return fmt::format("event: error\ndata: {}\n\n", error_body(error));
}

}  // namespace quern::anthropic
