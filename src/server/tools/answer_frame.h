// Grammars around an answer: the marks of its format, and the reasoning that may come before it.
#pragma once

#include <string>
#include <string_view>

#include "server/tools/format_choice.h"
#include "text/tokenizer.h"

namespace quern::tools {

// Lark for a mark of a format: the token itself where the vocabulary has it as a special one, else its text.
std::string lark_mark(const Tokenizer& tokenizer, std::string_view mark);

// Whether the marks of a format are special tokens, which the text of an answer does not show by default.
bool has_special_marks(const Tokenizer& tokenizer, const OutputFormat& format, bool with_tools);

// GrammarSpec::frame for a grammar that holds once the reasoning is over; empty when there is none. `open_in_prompt`:
// the reasoning is under way; else the answer may begin with it. `is_call`: the grammar writes its own channel
// (harmony).
std::string reasoning_frame(const Tokenizer& tokenizer, const OutputFormat& format, bool open_in_prompt,
                            bool is_call = false);

}  // namespace quern::tools
