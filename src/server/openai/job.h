// A request of text generation between its fields and its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/chat_plan.h"
#include "server/model_table.h"
#include "server/openai/chat_reader.h"
#include "server/openai/request.h"
#include "server/route.h"

namespace quern::openai {

// A request that is ready for the engine: one prompt per stream, `n` answers each.
struct Job {
  const ServedModel* model = nullptr;
  GenerationFields fields;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;  // text before each answer; empty for chat
  bool echo = false;
  std::optional<ChatPlan> plan;  // of a chat
  ChatReaderOptions reader;
};

ChatReader make_reader(const Job& job);  // of one answer of a chat
// "tool_calls" where the reader found some, else the reason's own name.
const char* finish_name(const ChatReader& reader, FinishReason reason);
// The entry of `choices` for a whole answer; a chat's text is read for reasoning and calls.
Json choice_json(const Job& job, int32_t index, const std::string& text, FinishReason reason, Json logprobs = nullptr);

}  // namespace quern::openai
