// Waits for the fleet's answer without holding a thread.
#pragma once

#include <optional>

#include "platform/fleet/fleet.h"
#include "server/http/message.h"

namespace quern::door {

// nullopt: the client has left or the server has no time left. A lease that comes later is given back.
http::asio::awaitable<std::optional<Fleet::LeaseResult>> wait_for_lease(Fleet& fleet, RouteRequest request,
                                                                        std::chrono::milliseconds patience,
                                                                        http::Reply& reply);

}  // namespace quern::door
