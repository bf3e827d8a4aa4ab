// Events of one request on their way from the engine's thread to whoever reads the stream. Thread-safe; shared by both
// sides, so it outlives whichever goes first.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "quern/engine.h"

namespace quern {

class EventQueue {
 public:
  explicit EventQueue(int32_t n) : finishes_left_(n) {}

  // Engine's side. Stamps the event and wakes the reader; the callback runs when the queue comes to events_min, and at
  // each FinishEvent.
  void push(Event event);

  // Side of the one reader, as in EventStream. Read until nullopt before you wait for the callback again. A callback
  // set while events wait is called at once, by the caller's thread.
  std::optional<Event> next();
  std::optional<Event> try_next();
  // null: none any more; returns when no call is under way
  void on_ready(std::function<void()> callback, size_t events_min);
  bool finished() const;

 private:
  std::optional<Event> take();

  std::mutex callback_mutex_;       // held while the callback runs; taken before mutex_
  std::function<void()> callback_;  // guarded by callback_mutex_

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;  // guarded by mutex_
  size_t events_min_ = 1;     // guarded by mutex_
  int32_t finishes_left_;     // guarded by mutex_: FinishEvents that were not taken yet
};

}  // namespace quern
