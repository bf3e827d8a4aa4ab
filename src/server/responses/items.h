// Items of a conversation: checked, kept, and turned into messages for templates.
#pragma once

#include <string>

#include "base/json.h"
#include "server/api_error.h"

namespace quern::responses {

std::string string_field(const Json& object, const char* name);  // empty when it is no string

// A request's `input`, a string or a list, as items with a type and an id. Errors name the item.
ApiResult<Json> read_input(const Json& input);

// Items of a conversation (inputs and outputs) as messages for templates.
ApiResult<Json> messages_of(const Json& items, const std::string& instructions);

}  // namespace quern::responses
