// Messages from any thread to the one that owns the engine. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace quern {

template <class Message>
class Mailbox {
 public:
  void push(Message message) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
  }

  enum class Wait { kNo, kUntilOneComes };
  // Moves all messages into `out` (cleared first), in the order in which they came.
  void drain(std::vector<Message>& out, Wait wait) {
    out.clear();
    std::unique_lock lock(mutex_);
    if (wait == Wait::kUntilOneComes) ready_.wait(lock, [this] { return !messages_.empty(); });
    messages_.swap(out);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Message> messages_;  // guarded by mutex_
};

}  // namespace quern
