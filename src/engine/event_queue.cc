#include "engine/event_queue.h"

namespace quern {

void EventQueue::push(Event event) {
  event.time = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    const bool is_last = event.finish.has_value();
    events_.push_back(std::move(event));
    ready_.notify_one();
    if (events_.size() != events_min_ && !is_last) return;
  }
  const std::lock_guard lock(callback_mutex_);
  if (callback_) callback_();
}

std::optional<Event> EventQueue::take() {
  Event event = std::move(events_.front());
  events_.pop_front();
  if (event.finish) --finishes_left_;
  return event;
}

std::optional<Event> EventQueue::next() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !events_.empty() || finishes_left_ == 0; });
  if (events_.empty()) return std::nullopt;
  return take();
}

std::optional<Event> EventQueue::try_next() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  return take();
}

void EventQueue::on_ready(std::function<void()> callback, size_t events_min) {
  const std::lock_guard lock(callback_mutex_);
  callback_ = std::move(callback);
  if (!callback_) return;
  bool waiting = false;
  {
    const std::lock_guard events_lock(mutex_);
    events_min_ = events_min;
    waiting = !events_.empty();
  }
  if (waiting) callback_();
}

bool EventQueue::finished() const {
  const std::lock_guard lock(mutex_);
  return finishes_left_ == 0;
}

}  // namespace quern
