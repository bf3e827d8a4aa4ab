// Machines beside this one: they join and tell of themselves, people look at them, empty and remove them. What passes
// between a machine and this server: platform/fleet/node.h.
#pragma once

#include "platform/fleet/node.h"
#include "server/platform/context.h"
#include "server/route.h"

namespace quern::nodes {

Routes routes(const platform::Context& context);

// All of them, this machine with its devices first; without a fleet it alone. Blocks while tools answer.
std::vector<NodeView> list_nodes(const platform::Context& context);
Json describe(const NodeView& node);

}  // namespace quern::nodes
