// The log of a replica on another machine, as it comes.
#pragma once

#include <string>

#include "server/door/door.h"

namespace quern::door {

inline constexpr const char* kLogOffsetHeader = "X-Quern-Log-Offset";  // where in its file the text of an answer begins

// Writes the last `bytes` of it into the stream that has begun, and what comes behind, piece by piece: what the client
// has not taken is not read. A connection that breaks is made again and goes on where it broke; a replica that is
// started anew on another machine is followed there, from its log's beginning. Ends with the model, when the replica is
// gone or has come to this machine, or when the client leaves.
http::asio::awaitable<void> follow_machine_log(const Door& door, std::string uid, std::string replica, size_t bytes,
                                               http::Reply& reply);

}  // namespace quern::door
