// Uses a tokenizer and a chat template the way the engine does.
#pragma once

#include <string_view>

#include "text/tokenizer.h"

namespace quern::fuzz {

void run_text(const Tokenizer& tokenizer);  // encode, decode, stream, look-ups

}  // namespace quern::fuzz
