// Special tokens and token types of a GGUF vocabulary.
// Source: the GGUF specification (ggml project, docs/gguf.md), section Tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_value.h"
#include "quern/status.h"
#include "text/rust_tokenizer.h"

namespace quern {

enum class GgufTokenType : uint8_t { kUndefined = 0, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// tokenizer.ggml.token_type, all kNormal when absent. kInvalidFile when its length is not `num_tokens`.
Result<std::vector<GgufTokenType>> read_token_types(const GgufMetadata& metadata, size_t num_tokens);

struct GgufSpecialIds {
  std::optional<TokenId> bos, eos, eot, eom, unk, sep, pad, cls, mask;
};
// kInvalidFile when an id is outside the vocabulary.
Result<GgufSpecialIds> read_special_ids(const GgufMetadata& metadata, size_t num_tokens);

// Ids that end an answer: those the file names, and control tokens whose text says so in the families we know.
TokenizerFacts facts_of(const GgufSpecialIds& ids, const std::vector<std::string>& tokens,
                        const std::vector<GgufTokenType>& types);

// added_tokens of a tokenizer.json: control and unknown tokens are special, user-defined ones are not.
Json added_tokens_of(const std::vector<std::string>& tokens, const std::vector<GgufTokenType>& types);

// What is put around a text and around a pair, as a post_processor. Ids are left out where absent.
enum class PairStyle {
  kDecoder,  // [start] A [end] [start] B [end], the second part of type 1
  kBert,     // [start] A [end] B [end], the second part of type 1
  kRoberta,  // [start] A [end] [end] B [end]
  kT5,       // [start] A [end] B [end]
};
Json post_processor_of(const std::vector<std::string>& tokens, std::optional<TokenId> start, std::optional<TokenId> end,
                       PairStyle style);

}  // namespace quern
