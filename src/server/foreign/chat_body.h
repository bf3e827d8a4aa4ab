// The body of POST /v1/chat/completions for an engine that is not ours, of what a dialect has read. What the engine
// cannot honour is refused by the dialect's name of it.
#pragma once

#include <optional>
#include <string>

#include "quern/grammar.h"
#include "server/foreign/translation.h"

namespace quern::foreign {

struct ChatBody {
  Json messages;     // as templates want them: arguments of calls are objects
  Json tools;        // as OpenAI writes them, or null
  Json tool_choice;  // the same
  bool parallel_calls = true;
  std::optional<GrammarSpec> grammar;      // a schema, or any object
  Json template_kwargs = Json::object();   // enable_thinking, reasoning_effort
  std::optional<int32_t> thinking_budget;  // tokens
  bool continue_final_message = false;
  bool stream = false;
};

// Model, messages, tools, and what else stands above; sampling is up to the caller.
ApiResult<Json> chat_body(const Asked& asked, ChatBody chat);

// A field of sampling that OpenAI's API has not: by vLLM's name (top_k, min_p, typical_p, repetition_penalty) into the
// engine's. `param` is what the client calls it.
ApiResult<void> set_extra(Json& body, const Asked& asked, std::string_view name, const Json& value,
                          const std::string& param);

ApiError unfinished();  // an answer that did not come to its end

}  // namespace quern::foreign
