// What GGUF metadata says about a tokenizer, in the Rust library's terms.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_value.h"
#include "quern/status.h"
#include "text/rust_tokenizer.h"

namespace quern {

struct GgufVocabulary {
  const std::vector<std::string>* tokens = nullptr;  // of the metadata, unless respelled
  std::vector<std::string> respelled;                // tokens in Hugging Face's spelling where GGUF's differs
  const std::vector<std::string>* merges = nullptr;  // null: none
  std::vector<double> scores;                        // empty: none
  std::vector<uint8_t> in_text;                      // empty: any piece may stand for plain text
  Json config;                                       // tokenizer.json without the vocabulary
  TokenizerFacts facts;
};

// kInvalidFile naming the key; kUnsupported naming a model or pre-tokenizer that is not known. `metadata` must outlive
// the result.
Result<GgufVocabulary> read_gguf_vocabulary(const GgufMetadata& metadata);

}  // namespace quern
