// Management of models, in our words and Xinference's where they agree: /v1/models and what lies below it. The contract
// with Xinference's clients: docs/xinference.md.
#pragma once

#include "server/platform/context.h"
#include "server/route.h"

namespace quern::platform {

Routes routes(const Context& context);

// Parts of it, each in a file of its name. A route of a model's name alone takes all that no other route does: these
// come last.
Routes model_routes(const Context& context);
Routes replica_routes(const Context& context);
Routes event_routes(const Context& context);

}  // namespace quern::platform
