#include "server/openai/logprobs.h"

#include <algorithm>
#include <utility>

namespace quern::openai {
namespace {

// JSON has no infinity; vLLM writes this.
constexpr double kImpossible = -9999.0;

double shown_logprob(float logprob) {
  return logprob > kImpossible ? static_cast<double>(logprob) : kImpossible;  // a NaN, too
}

// Bytes that are no character of their own become U+FFFD: JSON is UTF-8.
std::string shown_token(const std::string& bytes) {
  return Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

Json bytes_json(const std::string& bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

Json chat_entry(const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = tokenizer.token_bytes(id);
  return {{"token", shown_token(bytes)}, {"logprob", shown_logprob(logprob)}, {"bytes", bytes_json(bytes)}};
}

size_t count_characters(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

void ChatLogprobs::add(const Tokenizer& tokenizer, const TokenEvent& token) {
  Json entry = chat_entry(tokenizer, token.id, token.logprob);
  Json top = Json::array();
  for (const auto& [id, logprob] : token.top_logprobs) top.push_back(chat_entry(tokenizer, id, logprob));
  entry["top_logprobs"] = std::move(top);
  content_.push_back(std::move(entry));
}

Json ChatLogprobs::take() {
  return {{"content", std::exchange(content_, Json::array())}, {"refusal", nullptr}};
}

void CompletionLogprobs::add(const Tokenizer& tokenizer, int32_t id, Json logprob,
                             const std::vector<std::pair<int32_t, float>>& top_logprobs) {
  const std::string text = shown_token(tokenizer.token_bytes(id));
  Json top = nullptr;
  if (!logprob.is_null()) {
    top = Json::object();
    for (const auto& [other, value] : top_logprobs) {
      top[shown_token(tokenizer.token_bytes(other))] = shown_logprob(value);
    }
    top[text] = logprob;  // the token itself is always there, as OpenAI has it
  }
  tokens_.push_back(text);
  logprobs_.push_back(std::move(logprob));
  top_.push_back(std::move(top));
  offsets_.push_back(offset_);
  offset_ += count_characters(text);
}

void CompletionLogprobs::begin_prompt(const Tokenizer& tokenizer, int32_t first_id) {
  add(tokenizer, first_id, nullptr, {});
}

void CompletionLogprobs::add(const Tokenizer& tokenizer, const PromptEvent& token) {
  add(tokenizer, token.id, shown_logprob(token.logprob), token.top_logprobs);
}

void CompletionLogprobs::add(const Tokenizer& tokenizer, const TokenEvent& token) {
  add(tokenizer, token.id, shown_logprob(token.logprob), token.top_logprobs);
}

Json CompletionLogprobs::take() {
  return {{"tokens", std::exchange(tokens_, Json::array())},
          {"token_logprobs", std::exchange(logprobs_, Json::array())},
          {"top_logprobs", std::exchange(top_, Json::array())},
          {"text_offset", std::exchange(offsets_, Json::array())}};
}

Json prompt_logprob(const Tokenizer& tokenizer, const PromptEvent& token) {
  Json entry = Json::object();
  const auto add = [&](int32_t id, float logprob, int32_t rank) {
    entry[std::to_string(id)] = {
        {"logprob", shown_logprob(logprob)}, {"rank", rank}, {"decoded_token", shown_token(tokenizer.token_bytes(id))}};
  };
  int32_t rank = 0;
  for (const auto& [id, logprob] : token.top_logprobs) add(id, logprob, ++rank);
  add(token.id, token.logprob, token.rank);
  return entry;
}

}  // namespace quern::openai
