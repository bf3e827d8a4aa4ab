// A GrammarSpec, checked, as the parts that the grammar library compiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/grammar.h"
#include "quern/status.h"
#include "text/grammar.h"

namespace quern {

// Blanks between the parts of a JSON value: none, one space, or a line break with some indentation. Bounded, so that a
// model that wants to stop cannot run on with blanks.
inline constexpr std::string_view kJsonBlanks = R"( |\r?\n( {0,8}|\t{0,4}))";

struct GrammarPart {
  std::string name;
  QuernGrammarKind kind = QUERN_GRAMMAR_LARK;
  std::string text;
};

// The first part is the whole. kInvalidArgument: the text is malformed or over a limit.
Result<std::vector<GrammarPart>> grammar_parts(const GrammarSpec& spec, const GrammarLimits& limits);

// `text` as a string of Lark.
std::string lark_string(std::string_view text);

}  // namespace quern
