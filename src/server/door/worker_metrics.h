// What workers count, for the server's own /metrics: theirs listen where no collector reaches them.
#pragma once

#include <string>

#include "platform/fleet/fleet.h"
#include "server/door/connection_pool.h"

namespace quern::door {

// `own` with the engine metrics of every ready replica, as MetricsMerge puts them: of at most 64 replicas of this
// machine (1 MiB each) and 64 other machines (each asked once, 8 MiB), side by side, in 2 s. What does not answer is
// left out, as is a server behind a URL: it is not ours to watch.
asio::awaitable<std::string> with_worker_metrics(const std::string& own, const Fleet& fleet, ConnectionPool& pool);

}  // namespace quern::door
