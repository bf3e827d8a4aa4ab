// OpenAI requests of text generation: wire fields to validated values. Names and defaults as OpenAI and vLLM have them.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "server/openai/constraints.h"
#include "server/openai/tool_fields.h"

namespace quern::openai {

// What chat and text completions share.
struct GenerationFields {
  std::string model;
  Request request;  // all but prompt_ids
  bool stream = false;
  bool include_usage = false;
  std::optional<GrammarField> grammar;
  bool logprobs = false;              // of each token; Request::top_logprobs says how many more likely ones
  bool hide_prompt_logprobs = false;  // they are asked for to be echoed, not for a field of their own
  bool prompt_only = false;           // max_tokens 0: the one token that is drawn is not shown
  int32_t choices = 0;                // > 0: of request.n answers only the so many likeliest are shown (best_of)
  bool beam_search = false;           // over request.n beams
  double length_penalty = 1.0;
  std::string prediction;  // text that the answer may repeat
};

struct ChatRequest {
  GenerationFields generation;
  Json messages;  // as templates want them: content is text, roles checked
  ToolFields tools;
  bool include_reasoning = true;
  std::optional<int32_t> thinking_budget;
  Json template_kwargs = Json::object();
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

struct CompletionRequest {
  GenerationFields generation;
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;  // at least one
  bool echo = false;
};

// `defaults` come from the model's generation_config.json; a field that is sent wins.
ApiResult<ChatRequest> parse_chat_request(const Json& body, const SamplingOptions& defaults);
ApiResult<CompletionRequest> parse_completion_request(const Json& body, const SamplingOptions& defaults);

}  // namespace quern::openai
