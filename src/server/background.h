// Work that no connection waits for: background responses, batch lines. It runs as a route would, with a reply that
// keeps what is sent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "server/http/message.h"

namespace quern {

// Thread rule as for Reply, but for cancel() and expire(): any thread.
class DetachedReply final : public http::Reply {
 public:
  explicit DetachedReply(http::asio::any_io_executor strand) : signal_(std::make_shared<http::Signal>(strand)) {}

  void cancel();  // to the handler it looks as if the client had left
  void expire();  // the server stops

  const std::string& body() const { return body_; }

  http::asio::awaitable<void> send(int status, std::string_view content_type, std::string body,
                                   http::Headers headers) override;
  http::asio::awaitable<void> start_stream(int status, std::string_view content_type, http::Headers headers) override;
  http::asio::awaitable<bool> write(std::string_view bytes) override;
  http::asio::awaitable<void> end_stream() override;
  void break_off() override;
  void set_header(std::string, std::string) override {}
  std::shared_ptr<http::Signal> signal() override { return signal_; }
  bool client_gone() const override { return cancelled_.load(); }
  bool out_of_time() const override { return expired_.load(); }
  int status() const override { return status_; }
  int64_t bytes_sent() const override { return static_cast<int64_t>(body_.size()); }

 private:
  std::shared_ptr<http::Signal> signal_;
  std::atomic<bool> cancelled_ = false, expired_ = false;
  int status_ = 0;
  std::string body_;
};

// The tasks that run. Thread-safe.
class Background {
 public:
  using Task = std::function<http::asio::awaitable<void>(DetachedReply&)>;

  explicit Background(int32_t tasks_max) : tasks_max_(tasks_max) {}
  ~Background() { stop(); }

  // Runs `task` on side threads; nullptr when too many run or the server stops. What it throws ends it alone.
  std::shared_ptr<DetachedReply> start(Task task);
  // Tells all tasks that time is up and waits until they have ended.
  void stop();

 private:
  http::asio::awaitable<void> run(Task task, std::shared_ptr<DetachedReply> reply);

  const int32_t tasks_max_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::set<std::shared_ptr<DetachedReply>> running_;  // guarded by mutex_
  bool stopping_ = false;                             // guarded by mutex_
};

}  // namespace quern
