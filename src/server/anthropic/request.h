// Anthropic's Messages requests: wire fields to validated values.
#pragma once

#include "base/json.h"
#include "quern/engine.h"
#include "quern/grammar.h"
#include "server/api_error.h"
#include "server/tool_list.h"

namespace quern::anthropic {

struct MessagesRequest {
  std::string model;
  Request request;  // all but prompt_ids
  Json messages;    // as templates want them: a system turn first, text contents
  ToolList tools;
  std::optional<GrammarSpec> grammar;  // output_config.format
  bool show_thinking = false;
  std::optional<int32_t> thinking_budget;  // tokens
  Json template_kwargs = Json::object();
  bool continue_final_message = false;  // the last turn is the assistant's: the answer goes on from it
  bool stream = false;
};

// kCount: for /v1/messages/count_tokens, where max_tokens is not needed.
enum class Purpose : uint8_t { kAnswer, kCount };
ApiResult<MessagesRequest> parse_messages_request(const Json& body, const SamplingOptions& defaults, Purpose purpose);

}  // namespace quern::anthropic
