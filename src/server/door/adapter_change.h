// LoRA adapters of launched models at run time: all replicas that serve are told, those of other machines through their
// machine's own server, and the launch remembers it for those to come.
#pragma once

#include "server/door/door.h"

namespace quern::door {

// Loads the adapter into every replica of the model; with an empty path it is taken out. When one of them refuses, the
// others are told to go back to what they had, and its words are the error: 400 for what the caller can mend, 503 when
// a replica cannot be asked or none serves.
http::asio::awaitable<ApiResult<void>> change_adapter(Door& door, std::string uid, LaunchAdapter adapter);

}  // namespace quern::door
