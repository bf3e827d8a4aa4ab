// Tools of a chat request: what may be called, whether it must be, and calls of earlier turns.
#pragma once

#include <string>

#include "base/json.h"
#include "server/fields.h"
#include "server/tool_list.h"

namespace quern::openai {

using ToolFields = ToolList;
ToolFields read_tools(Fields& fields);

// An assistant's message as templates want it: the arguments of its calls are objects, its reasoning is
// `reasoning_content`. `param` names the message.
ApiResult<void> normalize_assistant(Json& message, const std::string& param);

}  // namespace quern::openai
