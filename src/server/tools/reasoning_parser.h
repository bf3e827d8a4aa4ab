// Splits what a model thinks from what it says: <think>…</think> at the beginning of an answer.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/tools/output_parser.h"

namespace quern::tools {

struct ReasoningMarks {
  std::string open, close;  // both empty: no reasoning is looked for
};

// `open_in_prompt`: the prompt has written the opening mark, the answer begins inside the reasoning. What follows the
// reasoning goes to `next`. Without the opening mark at the beginning all of the answer does.
std::unique_ptr<OutputParser> make_reasoning_parser(ReasoningMarks marks, bool open_in_prompt,
                                                    std::unique_ptr<OutputParser> next);

// Content only.
std::unique_ptr<OutputParser> make_plain_parser();

}  // namespace quern::tools
