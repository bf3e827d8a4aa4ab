// OpenAI answers of text generation: JSON objects for whole replies and for stream chunks.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "quern/engine.h"

namespace quern::openai {

enum class AnswerKind : uint8_t { kChat, kCompletion };

struct AnswerHead {
  AnswerKind kind = AnswerKind::kChat;
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::string model;
  int64_t created = 0;  // seconds since 1970
};
AnswerHead make_answer_head(AnswerKind kind, const std::string& model);

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t draft_tokens = 0;
  int64_t accepted_draft_tokens = 0;
  void add(const FinishEvent& finish, bool first_of_prompt);
};

// Whole replies.
Json completion_choice(int32_t index, const std::string& text, FinishReason reason, Json logprobs = nullptr);
Json chat_choice(int32_t index, Json message, const char* finish_reason, Json logprobs = nullptr);
Json answer_body(const AnswerHead& head, Json choices, const Usage& usage);

// Stream chunks, as server-sent events ("data: …\n\n"). with_usage: the request asked for usage, so every chunk carries
// null.
std::string role_chunk(const AnswerHead& head, int32_t index, bool with_usage);
std::string text_chunk(const AnswerHead& head, int32_t index, const std::string& text, bool with_usage,
                       Json logprobs = nullptr);
std::string delta_chunk(const AnswerHead& head, int32_t index, Json delta, bool with_usage,
                        Json logprobs = nullptr);  // of a chat
std::string finish_chunk(const AnswerHead& head, int32_t index, const char* finish_reason, bool with_usage);
std::string usage_chunk(const AnswerHead& head, const Usage& usage);
inline constexpr const char* kDoneChunk = "data: [DONE]\n\n";

}  // namespace quern::openai
