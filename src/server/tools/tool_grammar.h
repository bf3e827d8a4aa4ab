// Tools of a request, and the grammar of an answer that must call them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "quern/grammar.h"
#include "quern/status.h"
#include "server/tools/format_choice.h"
#include "text/tokenizer.h"

namespace quern::tools {

struct Tool {
  std::string name;
  Json parameters;  // a schema; {} when the tool takes nothing
};

enum class ToolChoice : uint8_t { kNone, kAuto, kRequired };

// The format in which calls are forced: the model's own where a grammar can say it, else bare JSON.
ToolFormat forced_format(ToolFormat format);

// A call, or with `parallel` up to eight, in `forced_format(format.tools)`; each one's arguments follow the tool's
// schema. kInvalidArgument names the tool and what of its schema cannot be enforced.
Result<GrammarSpec> tool_grammar(const Tokenizer& tokenizer, const OutputFormat& format, const std::vector<Tool>& tools,
                                 bool parallel);

}  // namespace quern::tools
