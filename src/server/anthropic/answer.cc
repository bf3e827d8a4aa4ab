#include "server/anthropic/answer.h"

#include <openssl/sha.h>

#include <array>

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

Json stop_fields(const AnswerReader& answer, const FinishEvent& finish) {
  const bool by_string = finish.reason == FinishReason::kStop && !finish.stop_text.empty();
  const char* reason = finish.reason == FinishReason::kLength ? "max_tokens"
                       : by_string                            ? "stop_sequence"
                       : answer.has_calls()                   ? "tool_use"
                                                              : "end_turn";
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

// Clients keep a signature with its thinking and send both back; here it says which text it belongs to.
std::string signature(const std::string& thinking) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(thinking.data()), thinking.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

// Arguments that a limit cut are no object: such a call has none.
Json input_of(const AnswerPart& call) {
  auto input = parse_json(call.text, "input");
  return input && input->is_object() ? std::move(*input) : Json::object();
}

Json block_json(const AnswerPart& part) {
  switch (part.kind) {
    case AnswerPart::Kind::kReasoning:
      return {{"type", "thinking"}, {"thinking", part.text}, {"signature", signature(part.text)}};
    case AnswerPart::Kind::kCall:
      return {{"type", "tool_use"}, {"id", part.call_id}, {"name", part.name}, {"input", input_of(part)}};
    case AnswerPart::Kind::kText: break;
  }
  return {{"type", "text"}, {"text", part.text}};
}

std::string begin_block(size_t index, const AnswerPart& part) {
  Json block = block_json({.kind = part.kind, .text = "", .call_id = part.call_id, .name = part.name});
  if (part.kind == AnswerPart::Kind::kReasoning) block["signature"] = "";
  return event("content_block_start", {{"index", index}, {"content_block", std::move(block)}});
}

std::string block_delta(size_t index, const char* type, const char* field, const std::string& text) {
  return event("content_block_delta", {{"index", index}, {"delta", {{"type", type}, {field, text}}}});
}

std::string part_delta(size_t index, AnswerPart::Kind kind, const std::string& text) {
  switch (kind) {
    case AnswerPart::Kind::kReasoning: return block_delta(index, "thinking_delta", "thinking", text);
    case AnswerPart::Kind::kCall: return block_delta(index, "input_json_delta", "partial_json", text);
    case AnswerPart::Kind::kText: break;
  }
  return block_delta(index, "text_delta", "text", text);
}

std::string end_block(size_t index, const AnswerPart& part) {
  std::string events;
  if (part.kind == AnswerPart::Kind::kReasoning) {
    events = block_delta(index, "signature_delta", "signature", signature(part.text));
  }
  return events + event("content_block_stop", {{"index", index}});
}

}  // namespace

std::string error_body(const ApiError& error) {
  return dump_json(error_json(error));
}

Json message_body(const MessageHead& head, const AnswerReader& answer, const FinishEvent& finish) {
  Json content = Json::array();
  for (const AnswerPart& part : answer.parts()) content.push_back(block_json(part));
  if (content.empty()) content.push_back(block_json({}));
  Json body = message_json(head, std::move(content),
                           usage_json(finish.prompt_tokens, finish.cached_tokens, finish.output_tokens));
  body.update(stop_fields(answer, finish));
  return body;
}

std::string start_events(const MessageHead& head, int32_t prompt_tokens) {
  return event("message_start", {{"message", message_json(head, Json::array(), usage_json(prompt_tokens, 0, 0))}}) +
         event("ping", Json::object());
}

std::string delta_events(const AnswerReader& answer, const std::vector<PartDelta>& deltas) {
  std::string events;
  for (const PartDelta& delta : deltas) {
    const AnswerPart& part = answer.parts()[delta.part];
    if (delta.begins && delta.part > 0) events += end_block(delta.part - 1, answer.parts()[delta.part - 1]);
    if (delta.begins) events += begin_block(delta.part, part);
    if (!delta.text.empty()) events += part_delta(delta.part, part.kind, delta.text);
  }
  return events;
}

std::string end_events(const AnswerReader& answer, const FinishEvent& finish) {
  const auto& parts = answer.parts();
  std::string events =
      parts.empty() ? begin_block(0, {}) + end_block(0, {}) : end_block(parts.size() - 1, parts.back());
  events +=
      event("message_delta", {{"delta", stop_fields(answer, finish)},
                              {"usage", usage_json(finish.prompt_tokens, finish.cached_tokens, finish.output_tokens)}});
  return events + event("message_stop", Json::object());
}

std::string error_event(const ApiError& error) {
  return fmt::format("event: error\ndata: {}\n\n", error_body(error));
}

}  // namespace quern::anthropic
