#include "server/openai/answer.h"

#include <chrono>
#include <random>

#include "base/status.h"

namespace quern::openai {
namespace {

Json usage_json(const Usage& usage) {
  Json json = {{"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.output_tokens},
               {"total_tokens", usage.prompt_tokens + usage.output_tokens},
               {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
  if (usage.draft_tokens > 0) {
    json["completion_tokens_details"] = {
        {"accepted_prediction_tokens", usage.accepted_draft_tokens},
        {"rejected_prediction_tokens", usage.draft_tokens - usage.accepted_draft_tokens}};
  }
  return json;
}

Json head_json(const AnswerHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

std::string chunk(const AnswerHead& head, Json choice, bool with_usage) {
  Json body = head_json(head, head.kind == AnswerKind::kChat ? "chat.completion.chunk" : "text_completion");
  body["choices"] = Json::array({std::move(choice)});
  if (with_usage) body["usage"] = nullptr;
  return "data: " + dump_json(body) + "\n\n";
}

Json chunk_choice(AnswerKind kind, int32_t index, const std::string& text, Json finish_reason,
                  Json logprobs = nullptr) {
  Json choice = {{"index", index}};
  if (kind == AnswerKind::kChat) {
    choice["delta"] = Json{{"content", text}};  // the last one's is empty: clients read it without asking
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish_reason);
  return choice;
}

}  // namespace

AnswerHead make_answer_head(AnswerKind kind, const std::string& model) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {
      .kind = kind,
      .id = fmt::format("{}-{:016x}{:016x}", kind == AnswerKind::kChat ? "chatcmpl" : "cmpl", generator(), generator()),
      .model = model,
      .created = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

void Usage::add(const FinishEvent& finish, bool first_of_prompt) {
  output_tokens += finish.output_tokens;
  draft_tokens += finish.draft_tokens;
  accepted_draft_tokens += finish.accepted_draft_tokens;
  if (!first_of_prompt) return;
  prompt_tokens += finish.prompt_tokens;
  cached_tokens += finish.cached_tokens;
}

Json completion_choice(int32_t index, const std::string& text, FinishReason reason, Json logprobs) {
  return {{"index", index},
          {"text", text},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", finish_reason_name(reason)}};
}

Json chat_choice(int32_t index, Json message, const char* finish_reason, Json logprobs) {
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", finish_reason}};
}

Json answer_body(const AnswerHead& head, Json choices, const Usage& usage) {
  Json body = head_json(head, head.kind == AnswerKind::kChat ? "chat.completion" : "text_completion");
  body["choices"] = std::move(choices);
  body["usage"] = usage_json(usage);
  return body;
}

std::string role_chunk(const AnswerHead& head, int32_t index, bool with_usage) {
  return chunk(head,
               {{"index", index},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}},
               with_usage);
}

std::string text_chunk(const AnswerHead& head, int32_t index, const std::string& text, bool with_usage, Json logprobs) {
  return chunk(head, chunk_choice(head.kind, index, text, nullptr, std::move(logprobs)), with_usage);
}

std::string delta_chunk(const AnswerHead& head, int32_t index, Json delta, bool with_usage, Json logprobs) {
  return chunk(
      head,
      {{"index", index}, {"delta", std::move(delta)}, {"logprobs", std::move(logprobs)}, {"finish_reason", nullptr}},
      with_usage);
}

std::string finish_chunk(const AnswerHead& head, int32_t index, const char* finish_reason, bool with_usage) {
  return chunk(head, chunk_choice(head.kind, index, "", finish_reason), with_usage);
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
  Json body = head_json(head, head.kind == AnswerKind::kChat ? "chat.completion.chunk" : "text_completion");
  body["choices"] = Json::array();
  body["usage"] = usage_json(usage);
  return "data: " + dump_json(body) + "\n\n";
}

}  // namespace quern::openai
