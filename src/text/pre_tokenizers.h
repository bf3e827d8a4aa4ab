// How a GGUF file's `tokenizer.ggml.pre` splits text before byte-level BPE. The names are the ones converters write;
// the steps are those of the tokenizer.json each name stands for.
#pragma once

#include <string_view>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

struct PreTokenizer {
  Json normalizer;             // as tokenizer.json writes it; may be null
  Json steps;                  // a pre_tokenizer, likewise
  bool ignore_merges = false;  // a whole word that is in the vocabulary is one token, whatever the merges say
  bool adds_bos = false;       // when the file does not say
};

// "" counts as "default". kUnsupported naming an unknown one.
Result<PreTokenizer> pre_tokenizer_named(std::string_view name);

}  // namespace quern
