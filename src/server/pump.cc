#include "server/pump.h"

#include "server/tracing/request_span.h"

namespace quern {
namespace {

// To answers that still run when the server has no time left: each dialect tells its client in its own way.
Event shutdown_event() {
  FinishEvent finish;
  finish.reason = FinishReason::kError;
  finish.error = Error{ErrorCode::kUnavailable, "the server is shutting down"};
  return Event{.token = std::nullopt, .finish = std::move(finish)};
}

}  // namespace

http::asio::awaitable<bool> pump(http::Reply& reply, EventStreams& streams, const EventSink& sink) {
  const std::shared_ptr<http::Signal> signal = reply.signal();
  for (const auto& stream : streams) stream->on_ready([signal] { signal->notify(); });
  for (;;) {
    size_t num_finished = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      while (const auto event = streams[i]->try_next()) {
        if (auto* span = reply.span()) span->see_event(*event);
        if (!co_await sink(i, *event)) co_return false;
      }
      num_finished += streams[i]->finished() ? 1 : 0;
    }
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
