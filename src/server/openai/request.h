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
