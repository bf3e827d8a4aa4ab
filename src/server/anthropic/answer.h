// Anthropic's answers: the whole message, and the events of a stream in the order its SDKs expect:
// message_start, content_block_start, ping, content_block_delta …, content_block_stop, message_delta, message_stop.
#pragma once

#include <string>

#include "base/json.h"
#include "quern/engine.h"
#include "server/api_error.h"

namespace quern::anthropic {

std::string error_body(const ApiError& error);

struct MessageHead {
  std::string id;  // "msg_…"
  std::string model;
};

Json message_body(const MessageHead& head, const std::string& text, const FinishEvent& finish);

// Server-sent events, ready to write.
std::string start_events(const MessageHead& head, int32_t prompt_tokens);
std::string text_event(const std::string& text);
std::string end_events(const FinishEvent& finish);
std::string error_event(const ApiError& error);

}  // namespace quern::anthropic
