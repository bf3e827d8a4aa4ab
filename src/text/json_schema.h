// JSON schemas before the grammar library compiles them: what it would take for less than is written.
#pragma once

#include "base/json.h"
#include "quern/status.h"

namespace quern {

// The same schema with formats spelled out as patterns where the library's own are wider than the format (29 February
// of any year), and without the library's private settings. kInvalidArgument names a keyword that cannot be enforced.
Result<Json> strict_schema(Json schema);

}  // namespace quern
