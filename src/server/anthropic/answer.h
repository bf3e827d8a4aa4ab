// Anthropic's answers: the whole message, and the events of a stream in the order its SDKs expect:
// message_start, ping, for each block (content_block_start, content_block_delta …, content_block_stop), message_delta,
// message_stop. Blocks are of type thinking, text and tool_use; an answer without any has an empty text.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "server/answer_reader.h"
#include "server/api_error.h"

namespace quern::anthropic {

std::string error_body(const ApiError& error);

struct MessageHead {
  std::string id;  // "msg_…"
  std::string model;
};

Json message_body(const MessageHead& head, const AnswerReader& answer, const FinishEvent& finish);

// Server-sent events, ready to write.
std::string start_events(const MessageHead& head, int32_t prompt_tokens);
std::string delta_events(const AnswerReader& answer, const std::vector<PartDelta>& deltas);
std::string end_events(const AnswerReader& answer, const FinishEvent& finish);
std::string error_event(const ApiError& error);

}  // namespace quern::anthropic
