// What Xinference's clients ask beside models and inference: the cluster, registrations, engines, the cache, autostart.
// Its words and shapes; errors carry `detail`. What is honoured: docs/xinference.md.
#pragma once

#include "server/platform/context.h"
#include "server/route.h"

namespace quern::xinference {

Routes routes(const platform::Context& context);

// Parts of it, each in a file of its name.
Routes cluster_routes(const platform::Context& context);
Routes registration_routes(const platform::Context& context);
Routes catalog_routes(const platform::Context& context);  // families, versions, engines
Routes cache_routes(const platform::Context& context);
Routes autostart_routes(const platform::Context& context);
Routes absent_routes();
Routes token_routes();

}  // namespace quern::xinference
