// An answer that is sent as one body: its choices grow with the engine's events.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/job.h"
#include "server/openai/logprobs.h"

namespace quern::openai {

class WholeAnswer {
 public:
  // `job` must outlive it.
  WholeAnswer(AnswerKind kind, const Job& job);

  // An event of the prompt's stream. An error ends everything.
  std::optional<ApiError> take(size_t prompt, const Event& event);
  std::string body(const AnswerHead& head);

 private:
  struct Choice {
    std::string text;
    ChatLogprobs chat;
    CompletionLogprobs completion;
    Json prompt_logprobs = Json::array();
    double logprob_sum = 0;
    int32_t tokens = 0;
    FinishReason reason = FinishReason::kStop;
  };

  bool echoes_logprobs() const { return kind_ == AnswerKind::kCompletion && job_.echo && job_.fields.logprobs; }
  bool shows_prompt_logprobs() const {
    return job_.fields.request.prompt_logprobs && !job_.fields.hide_prompt_logprobs;
  }
  void take_prompt(Choice& choice, const PromptEvent& token);
  void take_token(Choice& choice, const TokenEvent& token);
  Json logprobs_of(Choice& choice) const;
  std::vector<Choice*> best_of(size_t prompt);  // those to show: all, or the likeliest per token, best first

  AnswerKind kind_;
  const Job& job_;
  const Tokenizer& tokenizer_;
  size_t n_;
  std::vector<Choice> choices_;
  Usage usage_;
};

}  // namespace quern::openai
