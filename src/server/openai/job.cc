#include "server/openai/job.h"

#include <utility>

#include "server/openai/answer.h"

namespace quern::openai {

ChatReader make_reader(const Job& job) {
  return ChatReader(job.plan->make_parser(), job.reader);
}

const char* finish_name(const ChatReader& reader, FinishReason reason) {
  return reader.has_calls() && reason == FinishReason::kStop ? "tool_calls" : finish_reason_name(reason);
}

Json choice_json(const Job& job, int32_t index, const std::string& text, FinishReason reason, Json logprobs) {
  if (!job.plan) return completion_choice(index, text, reason, std::move(logprobs));
  ChatReader reader = make_reader(job);
  reader.push(text);
  reader.finish(reason);
  return chat_choice(index, reader.message(), finish_name(reader, reason), std::move(logprobs));
}

}  // namespace quern::openai
