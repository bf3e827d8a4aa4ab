#include "server/pump.h"

namespace quern {

http::asio::awaitable<bool> pump(http::Reply& reply, EventStreams& streams, const EventSink& sink) {
  const std::shared_ptr<http::Signal> signal = reply.signal();
  for (const auto& stream : streams) stream->on_ready([signal] { signal->notify(); });
  for (;;) {
    size_t num_finished = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      while (const auto event = streams[i]->try_next()) {
        if (!co_await sink(i, *event)) co_return false;
      }
      num_finished += streams[i]->finished() ? 1 : 0;
    }
    if (num_finished == streams.size()) co_return true;
    if (reply.client_gone()) co_return false;
    co_await signal->wait();
  }
}

}  // namespace quern
