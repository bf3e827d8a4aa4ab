// What tokenizer_config.json adds to a tokenizer.json: names of special tokens, and start and end tokens to put around
// a text.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "text/rust_tokenizer.h"

namespace quern {

// bos_token, eos_token, … that are strings or added-token objects, in the order of the file.
std::vector<std::pair<std::string, std::string>> special_tokens_of(const Json& config);

// The post_processor for tokenizer classes whose add_bos_token and add_eos_token overrule tokenizer.json (LLaMA's and
// Gemma's in transformers); nullopt for others, and where the config says neither.
std::optional<Json> post_processor_override(const Json& config, const QuernTokenizer& handle);

}  // namespace quern
