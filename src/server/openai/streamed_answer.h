// An answer that is sent while it grows: what each of the engine's events amounts to, as server-sent events.
#pragma once

#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/job.h"
#include "server/openai/logprobs.h"

namespace quern::openai {

class StreamedAnswer {
 public:
  // `head` and `job` must outlive it.
  StreamedAnswer(const AnswerHead& head, const Job& job);

  std::string begin() const;  // roles, and what is echoed
  // Chunks for an event of the prompt's stream; may be empty. An error ends everything.
  ApiResult<std::string> take(size_t prompt, const Event& event);
  std::string end() const;  // once every choice has its finish

 private:
  int32_t choice_of(size_t prompt, int32_t index) const {
    return static_cast<int32_t>(prompt) * job_.fields.request.n + index;
  }
  std::string take_token(int32_t choice, const TokenEvent& token);
  std::string take_finish(int32_t choice, const FinishEvent& finish);
  // What is told of a token's probability rides on the last chunk of its text; where that is held back, on a chunk of
  // its own.
  std::string chat_chunks(int32_t choice, const std::vector<Json>& deltas, Json logprobs = nullptr) const;
  Json logprobs_of(int32_t choice, const TokenEvent& token);  // null: nothing was asked

  const AnswerHead& head_;
  const Job& job_;
  const Tokenizer& tokenizer_;
  const bool with_usage_;
  std::vector<ChatReader> readers_;           // of each choice of a chat; none for completions
  std::vector<CompletionLogprobs> logprobs_;  // of each choice: they know how far its text is
  Usage usage_;
};

}  // namespace quern::openai
