#include "server/background.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>

#include "server/offload.h"

namespace quern {

using http::asio::awaitable;

void DetachedReply::cancel() {
  cancelled_.store(true);
  signal_->notify();
}

void DetachedReply::expire() {
  expired_.store(true);
  signal_->notify();
}

awaitable<void> DetachedReply::send(int status, std::string_view, std::string body, http::Headers) {
  status_ = status;
  body_ = std::move(body);
  co_return;
}

awaitable<void> DetachedReply::start_stream(int status, std::string_view, http::Headers) {
  status_ = status;
  co_return;
}

awaitable<bool> DetachedReply::write(std::string_view bytes) {
  body_ += bytes;
  co_return !cancelled_.load();
}

awaitable<void> DetachedReply::end_stream() {
  co_return;
}

void DetachedReply::break_off() {
  status_ = 502;
  body_.clear();
}

std::shared_ptr<DetachedReply> Background::start(Task task) {
  const auto strand = http::asio::make_strand(side_executor());
  auto reply = std::make_shared<DetachedReply>(strand);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || static_cast<int32_t>(running_.size()) >= tasks_max_) return nullptr;
    running_.insert(reply);
  }
  http::asio::co_spawn(strand, run(std::move(task), reply), http::asio::detached);
  return reply;
}

awaitable<void> Background::run(Task task, std::shared_ptr<DetachedReply> reply) {
  try {
    co_await task(*reply);
  } catch (const std::exception&) {
    // Whoever asked for it sees that nothing came.
  }
  const std::lock_guard lock(mutex_);
  running_.erase(reply);
  if (running_.empty()) idle_.notify_all();
}

void Background::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (const auto& reply : running_) reply->expire();
  idle_.wait(lock, [this] { return running_.empty(); });
}

}  // namespace quern
