// Tools for models whose chat template does not know of any.
#pragma once

#include "base/json.h"

namespace quern::tools {

// Adds a description of `tools` (as OpenAI writes them) to the system message, and rewrites earlier calls and their
// results as messages that every template knows.
void describe_tools(Json& messages, const Json& tools);

}  // namespace quern::tools
