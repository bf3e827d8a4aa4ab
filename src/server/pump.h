// Carries the engine's events of one HTTP request to its coroutine, until all answers are finished or the client is
// gone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "quern/engine.h"
#include "server/http/message.h"

namespace quern {

using EventStreams = std::vector<std::unique_ptr<EventStream>>;

// Called for each event of streams[stream_idx], in the order of each stream. Returns false to stop early.
using EventSink = std::function<http::asio::awaitable<bool>(size_t stream_idx, const Event& event)>;

// Returns true when every stream finished; false when the client left or the sink said stop. Streams that still run are
// cancelled by their destruction, which is up to the caller.
http::asio::awaitable<bool> pump(http::Reply& reply, EventStreams& streams, const EventSink& sink);

}  // namespace quern
