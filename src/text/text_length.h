// Refuses a text that cannot fit a model before all of it is encoded: encoding takes time and many times the text's
// memory, and a body may hold tens of megabytes. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "quern/status.h"
#include "text/tokenizer.h"

namespace quern {

// Ok for a text that may have at most `tokens_max` tokens (0: no limit); it is counted piece by piece, and only where
// it is longer than running text of so many tokens. kInvalidArgument: "`what`: more tokens than …".
Status check_text_length(const Tokenizer& tokenizer, std::string_view text, int32_t tokens_max, std::string_view what);

// The beginning of a text that is long enough to have `tokens_max` tokens: what a truncation to so many looks at.
std::string_view text_beginning(std::string_view text, int32_t tokens_max);

}  // namespace quern
