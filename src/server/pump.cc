#include "server/pump.h"

#include "server/tracing/request_span.h"

namespace quern {
namespace {

// A whole answer's reader is woken that often: waking it for each token takes the engine's cores from it.
constexpr size_t kEventsOfWhole = 64;

// To answers that still run when the server has no time left: each dialect tells its client in its own way.
Event shutdown_event() {
  FinishEvent finish;
  finish.reason = FinishReason::kError;
  finish.error = Error{ErrorCode::kUnavailable, "the server is shutting down"};
  return Event{.time = std::chrono::steady_clock::now(), .finish = std::move(finish)};
}

}  // namespace

http::asio::awaitable<bool> pump(http::Reply& reply, EventStreams& streams, Delivery delivery, const EventSink& sink) {
  const std::shared_ptr<http::Signal> signal = reply.signal();
  const size_t events_min = delivery == Delivery::kWhole ? kEventsOfWhole : 1;
  for (const auto& stream : streams) stream->on_ready([signal] { signal->notify(); }, events_min);
  for (;;) {
    size_t num_finished = 0;
    reply.hold();
    for (size_t i = 0; i < streams.size(); ++i) {
      while (const auto event = streams[i]->try_next()) {
        if (auto* span = reply.span()) span->see_event(*event);
        if (event->token) reply.count_tokens(1);
        if (!co_await sink(i, *event)) co_return false;
      }
      num_finished += streams[i]->finished() ? 1 : 0;
    }
    if (!co_await reply.release()) co_return false;
    if (num_finished == streams.size()) co_return true;
    if (reply.client_gone()) co_return false;
    if (reply.out_of_time()) {
      const Event event = shutdown_event();
      if (auto* span = reply.span()) span->see_event(event);
      for (size_t i = 0; i < streams.size(); ++i) {
        if (!streams[i]->finished() && !co_await sink(i, event)) break;
      }
      co_return false;
    }
    co_await signal->wait();
  }
}

}  // namespace quern
