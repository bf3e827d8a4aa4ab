// Tools of a chat request: what may be called, whether it must be, and calls of earlier turns.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "server/fields.h"
#include "server/tools/tool_grammar.h"

namespace quern::openai {

struct ToolFields {
  Json shown;                      // for the template: the tools as they were sent, or null
  std::vector<tools::Tool> tools;  // that may be called
  tools::ToolChoice choice = tools::ToolChoice::kNone;
  bool parallel = true;
};
ToolFields read_tools(Fields& fields);

// An assistant's message as templates want it: the arguments of its calls are objects, its reasoning is
// `reasoning_content`. `param` names the message.
ApiResult<void> normalize_assistant(Json& message, const std::string& param);

}  // namespace quern::openai
