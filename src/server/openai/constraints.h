// Fields of a request that say what the answer may look like: response_format, vLLM's structured_outputs and the older
// guided_*.
#pragma once

#include <optional>
#include <string>

#include "quern/grammar.h"
#include "server/fields.h"

namespace quern::openai {

struct GrammarField {
  GrammarSpec spec;
  std::string param;  // the field that asked for it, for errors
};

// nullopt: any text, or a fault that `fields` keeps.
std::optional<GrammarField> read_grammar(Fields& fields);

}  // namespace quern::openai
