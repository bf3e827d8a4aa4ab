#include "answer.h"

namespace quern::cli {

Result<std::vector<Answer>> read_answers(EventStream& stream, int32_t n,
                                         const std::function<void(int32_t index, const std::string& text)>& on_text) {
  std::vector<Answer> answers(static_cast<size_t>(n));
  const auto take_text = [&](int32_t index, const std::string& text) {
    answers[static_cast<size_t>(index)].text += text;
    if (on_text && !text.empty()) on_text(index, text);
  };
  while (auto event = stream.next()) {
    if (event->token) {
      Answer& answer = answers[static_cast<size_t>(event->token->index)];
      answer.ids.push_back(event->token->id);
      answer.logprobs.push_back(event->token->logprob);
      answer.top_logprobs.push_back(std::move(event->token->top_logprobs));
      take_text(event->token->index, event->token->text);
    } else if (event->finish) {
      take_text(event->finish->index, event->finish->text);
      answers[static_cast<size_t>(event->finish->index)].finish = std::move(*event->finish);
    }
  }
  for (const Answer& answer : answers) {
    if (answer.finish.error) return std::unexpected(*answer.finish.error);
  }
  return answers;
}

double decode_tokens_per_second(const FinishEvent& finish) {
  const int32_t tokens = finish.output_tokens - 1;
  return tokens > 0 && finish.decode_seconds > 0 ? tokens / finish.decode_seconds : 0.0;
}

double prefill_tokens_per_second(const FinishEvent& finish) {
  const int32_t tokens = finish.prompt_tokens - finish.cached_tokens;
  return finish.prefill_seconds > 0 ? tokens / finish.prefill_seconds : 0.0;
}

Json timings_json(const FinishEvent& finish) {
  return {{"prompt_tokens", finish.prompt_tokens},
          {"cached_tokens", finish.cached_tokens},
          {"output_tokens", finish.output_tokens},
          {"queue_seconds", finish.queue_seconds},
          {"prefill_seconds", finish.prefill_seconds},
          {"decode_seconds", finish.decode_seconds},
          {"prefill_tokens_per_second", prefill_tokens_per_second(finish)},
          {"decode_tokens_per_second", decode_tokens_per_second(finish)}};
}

namespace {

Json answer_json(const Answer& answer, bool with_logprobs) {
  Json json = {{"ids", answer.ids}, {"text", answer.text}, {"finish_reason", finish_reason_name(answer.finish.reason)}};
  if (!answer.finish.stop_text.empty()) json["stop"] = answer.finish.stop_text;
  json["seed"] = answer.finish.seed;
  if (with_logprobs) {
    json["logprobs"] = answer.logprobs;
    json["top_logprobs"] = answer.top_logprobs;
  }
  return json;
}

}  // namespace

Json answers_json(const std::vector<int32_t>& prompt_ids, const std::vector<Answer>& answers, bool with_logprobs) {
  Json json = {{"prompt_ids", prompt_ids}};
  json.update(answer_json(answers.front(), with_logprobs));
  if (answers.size() > 1) {
    Json choices = Json::array();
    for (size_t index = 0; index < answers.size(); ++index) {
      Json choice = {{"index", index}};
      choice.update(answer_json(answers[index], with_logprobs));
      choice["timings"] = timings_json(answers[index].finish);
      choices.push_back(std::move(choice));
    }
    json["choices"] = std::move(choices);
  }
  json["timings"] = timings_json(answers.front().finish);
  return json;
}

}  // namespace quern::cli
