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

// What the sink is for: a stream that goes out piece by piece, or one answer that is sent when it is whole.
enum class Delivery : uint8_t { kStreamed, kWhole };

// Returns true when every stream finished; false when the client left or the sink said stop. Streams that still run are
// cancelled by their destruction, which is up to the caller.
http::asio::awaitable<bool> pump(http::Reply& reply, EventStreams& streams, Delivery delivery, const EventSink& sink);

}  // namespace quern
