// How likely the tokens of an answer, or of its prompt, were: in the shapes of OpenAI's chat and completions and of
// vLLM's prompt_logprobs.
#pragma once

#include <string>

#include "base/json.h"
#include "quern/engine.h"
#include "text/tokenizer.h"

namespace quern::openai {

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}: entries collected with add().
class ChatLogprobs {
 public:
  void add(const Tokenizer& tokenizer, const TokenEvent& token);
  bool empty() const { return content_.empty(); }
  Json take();  // and begins anew

 private:
  Json content_ = Json::array();
};

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.
class CompletionLogprobs {
 public:
  // What is echoed: the prompt's first token has no probability, the others are events.
  void begin_prompt(const Tokenizer& tokenizer, int32_t first_id);
  void add(const Tokenizer& tokenizer, const PromptEvent& token);
  void add(const Tokenizer& tokenizer, const TokenEvent& token);
  bool empty() const { return tokens_.empty(); }
  Json take();  // and begins anew, the offset goes on

 private:
  void add(const Tokenizer& tokenizer, int32_t id, Json logprob,
           const std::vector<std::pair<int32_t, float>>& top_logprobs);

  Json tokens_ = Json::array(), logprobs_ = Json::array(), top_ = Json::array(), offsets_ = Json::array();
  size_t offset_ = 0;  // characters
};

// One entry of prompt_logprobs: {id: {"logprob", "rank", "decoded_token"}}. The first token's is null.
Json prompt_logprob(const Tokenizer& tokenizer, const PromptEvent& token);

}  // namespace quern::openai
