#include "server/openai/whole_answer.h"

#include <algorithm>
#include <functional>

namespace quern::openai {

WholeAnswer::WholeAnswer(AnswerKind kind, const Job& job)
    : kind_(kind),
      job_(job),
      tokenizer_(job.model->text->tokenizer()),
      n_(static_cast<size_t>(job.fields.request.n)),
      choices_(job.prompts.size() * n_) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    const size_t prompt = i / n_;
    choices_[i].text = job.echoes[prompt];
    choices_[i].prompt_logprobs.push_back(nullptr);
    if (echoes_logprobs()) choices_[i].completion.begin_prompt(tokenizer_, job.prompts[prompt].front());
  }
}

std::optional<ApiError> WholeAnswer::take(size_t prompt, const Event& event) {
  if (event.prompt) {
    for (size_t i = prompt * n_; i < (prompt + 1) * n_; ++i) take_prompt(choices_[i], *event.prompt);
  }
  if (event.token) take_token(choices_[prompt * n_ + static_cast<size_t>(event.token->index)], *event.token);
  if (!event.finish) return std::nullopt;
  const FinishEvent& finish = *event.finish;
  if (finish.reason == FinishReason::kError) {
    return to_api_error(finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"}));
  }
  Choice& choice = choices_[prompt * n_ + static_cast<size_t>(finish.index)];
  if (!job_.fields.prompt_only) choice.text += finish.text;
  choice.reason = job_.fields.prompt_only ? FinishReason::kLength : finish.reason;
  usage_.add(finish, finish.index == 0);
  if (job_.fields.prompt_only) --usage_.output_tokens;
  return std::nullopt;
}

std::string WholeAnswer::body(const AnswerHead& head) {
  Json list = Json::array();
  Json prompt_logprobs = nullptr;
  for (size_t prompt = 0; prompt < job_.prompts.size(); ++prompt) {
    for (Choice* choice : best_of(prompt)) {
      const auto index = static_cast<int32_t>(list.size());
      Json json = choice_json(job_, index, choice->text, choice->reason, logprobs_of(*choice));
      if (shows_prompt_logprobs()) {
        (kind_ == AnswerKind::kChat ? prompt_logprobs : json["prompt_logprobs"]) = choice->prompt_logprobs;
      }
      list.push_back(std::move(json));
    }
  }
  Json body = answer_body(head, std::move(list), usage_);
  if (!prompt_logprobs.is_null()) body["prompt_logprobs"] = std::move(prompt_logprobs);
  return dump_json(body);
}

void WholeAnswer::take_prompt(Choice& choice, const PromptEvent& token) {
  if (echoes_logprobs()) choice.completion.add(tokenizer_, token);
  if (shows_prompt_logprobs()) choice.prompt_logprobs.push_back(prompt_logprob(tokenizer_, token));
}

void WholeAnswer::take_token(Choice& choice, const TokenEvent& token) {
  choice.logprob_sum += static_cast<double>(token.logprob);
  ++choice.tokens;
  if (job_.fields.prompt_only) return;
  choice.text += token.text;
  if (!job_.fields.logprobs) return;
  if (kind_ == AnswerKind::kChat) {
    choice.chat.add(tokenizer_, token);
  } else {
    choice.completion.add(tokenizer_, token);
  }
}

Json WholeAnswer::logprobs_of(Choice& choice) const {
  if (!job_.fields.logprobs) return nullptr;
  return kind_ == AnswerKind::kChat ? choice.chat.take() : choice.completion.take();
}

std::vector<WholeAnswer::Choice*> WholeAnswer::best_of(size_t prompt) {
  std::vector<Choice*> list;
  for (size_t i = prompt * n_; i < (prompt + 1) * n_; ++i) list.push_back(&choices_[i]);
  const auto shown = static_cast<size_t>(job_.fields.choices);
  if (shown == 0 || shown >= list.size()) return list;
  const auto score = [](const Choice* choice) { return choice->logprob_sum / std::max(choice->tokens, 1); };
  std::ranges::stable_sort(list, std::greater(), score);
  list.resize(shown);
  return list;
}

}  // namespace quern::openai
