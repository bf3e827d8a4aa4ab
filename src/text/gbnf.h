// llama.cpp's grammar notation (GBNF), rewritten as Lark for the grammar library.
//
//   root  ::= "yes" | "no" [.!]{0,3}        rules, alternatives, strings, character classes, repetitions
#pragma once

#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern {

bool looks_like_gbnf(std::string_view text);  // has a rule with ::=

// kInvalidArgument with the line: malformed, an undefined rule, no rule `root`. Rules that do not recurse become one
// regular terminal each, in which every way to read a text counts; between the terminals of a recursive rule the
// longest one wins.
Result<std::string> gbnf_to_lark(std::string_view text);

}  // namespace quern
