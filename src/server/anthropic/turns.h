// Anthropic's turns, made of blocks, as messages for templates.
#pragma once

#include <string>

#include "base/json.h"
#include "server/api_error.h"

namespace quern::anthropic {

std::string type_of(const Json& block);  // its field `type`, or nothing

// The system's text first, which may be null; then a message a turn: text contents, calls of the assistant with
// arguments as objects, results of tools as messages of their own. Errors name the block.
ApiResult<Json> read_messages(const Json& list, const Json* system);

}  // namespace quern::anthropic
