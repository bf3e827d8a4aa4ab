#include "server/openai/streamed_answer.h"

#include <utility>

#include "server/generation.h"

namespace quern::openai {

StreamedAnswer::StreamedAnswer(const AnswerHead& head, const Job& job)
    : head_(head), job_(job), tokenizer_(job.model->text->tokenizer()), with_usage_(job.fields.include_usage) {
  const size_t choices = job.prompts.size() * static_cast<size_t>(job.fields.request.n);
  logprobs_.resize(choices);
  if (!job.plan) return;
  for (size_t i = 0; i < choices; ++i) readers_.push_back(make_reader(job));
}

std::string StreamedAnswer::begin() const {
  std::string chunks;
  for (size_t i = 0; i < logprobs_.size(); ++i) {
    const auto choice = static_cast<int32_t>(i);
    const std::string& echo = job_.echoes[i / static_cast<size_t>(job_.fields.request.n)];
    if (head_.kind == AnswerKind::kChat) chunks += role_chunk(head_, choice, with_usage_);
    if (!echo.empty()) chunks += text_chunk(head_, choice, echo, with_usage_);
  }
  return chunks;
}

ApiResult<std::string> StreamedAnswer::take(size_t prompt, const Event& event) {
  if (event.token) return take_token(choice_of(prompt, event.token->index), *event.token);
  if (!event.finish) return "";
  if (event.finish->reason == FinishReason::kError) return std::unexpected(finish_error(*event.finish));
  return take_finish(choice_of(prompt, event.finish->index), *event.finish);
}

std::string StreamedAnswer::end() const {
  return (with_usage_ ? usage_chunk(head_, usage_) : "") + kDoneChunk;
}

std::string StreamedAnswer::take_token(int32_t choice, const TokenEvent& token) {
  if (job_.fields.prompt_only) return "";
  Json told = logprobs_of(choice, token);
  if (!readers_.empty()) return chat_chunks(choice, readers_[static_cast<size_t>(choice)].push(token.text), told);
  if (token.text.empty() && told.is_null()) return "";
  return text_chunk(head_, choice, token.text, with_usage_, std::move(told));
}

std::string StreamedAnswer::take_finish(int32_t choice, const FinishEvent& finish) {
  usage_.add(finish, finish.index == 0);
  if (job_.fields.prompt_only) {
    --usage_.output_tokens;
    return finish_chunk(head_, choice, finish_reason_name(FinishReason::kLength), with_usage_);
  }
  if (readers_.empty()) {
    const std::string rest = finish.text.empty() ? "" : text_chunk(head_, choice, finish.text, with_usage_);
    return rest + finish_chunk(head_, choice, finish_reason_name(finish.reason), with_usage_);
  }
  ChatReader& reader = readers_[static_cast<size_t>(choice)];
  std::string rest = chat_chunks(choice, reader.push(finish.text));
  rest += chat_chunks(choice, reader.finish(finish.reason));
  return rest + finish_chunk(head_, choice, finish_name(reader, finish.reason), with_usage_);
}

std::string StreamedAnswer::chat_chunks(int32_t choice, const std::vector<Json>& deltas, Json logprobs) const {
  if (deltas.empty()) {
    return logprobs.is_null() ? "" : text_chunk(head_, choice, "", with_usage_, std::move(logprobs));
  }
  std::string chunks;
  for (size_t i = 0; i < deltas.size(); ++i) {
    Json told = i + 1 == deltas.size() ? std::move(logprobs) : Json(nullptr);
    chunks += delta_chunk(head_, choice, deltas[i], with_usage_, std::move(told));
  }
  return chunks;
}

Json StreamedAnswer::logprobs_of(int32_t choice, const TokenEvent& token) {
  if (!job_.fields.logprobs) return nullptr;
  if (head_.kind == AnswerKind::kChat) {
    ChatLogprobs told;
    told.add(tokenizer_, token);
    return told.take();
  }
  CompletionLogprobs& told = logprobs_[static_cast<size_t>(choice)];
  told.add(tokenizer_, token);
  return told.take();
}

}  // namespace quern::openai
