#include "server/devices/routes.h"

#include <mutex>
#include <thread>

namespace quern::devices {
namespace {

using http::asio::awaitable;
using Clock = std::chrono::steady_clock;

class DeviceCache {
 public:
  explicit DeviceCache(DeviceRoutesOptions options) : options_(std::move(options)) {}
  ~DeviceCache() {
    if (thread_.joinable()) thread_.request_stop();
  }

  // The body, when it is young enough; else null, and `signal` is notified once there is a new one.
  std::shared_ptr<const std::string> get(const std::shared_ptr<http::Signal>& signal) {
    const std::lock_guard lock(mutex_);
    if (body_ && !running_ && Clock::now() - taken_ < options_.kept_for) return body_;
    waiting_.push_back(signal);
    if (running_) return nullptr;
    running_ = true;
    if (thread_.joinable()) thread_.join();  // it has ended: running_ was false
    thread_ = std::jthread([this](const std::stop_token& stop) { take(stop); });
    return nullptr;
  }
  // Null: none was taken since.
  std::shared_ptr<const std::string> newer_than(Clock::time_point time) {
    const std::lock_guard lock(mutex_);
    return taken_ >= time ? body_ : nullptr;
  }

 private:
  void take(const std::stop_token& stop) {
    auto body =
        std::make_shared<const std::string>(dump_json(inventory_json(take_inventory(options_.inventory, stop))));
    std::vector<std::shared_ptr<http::Signal>> waiting;
    {
      const std::lock_guard lock(mutex_);
      body_ = std::move(body);
      taken_ = Clock::now();
      running_ = false;
      waiting.swap(waiting_);
    }
    for (const auto& signal : waiting) signal->notify();
  }

  const DeviceRoutesOptions options_;
  std::mutex mutex_;
  std::shared_ptr<const std::string> body_;             // guarded by mutex_
  Clock::time_point taken_;                             // guarded by mutex_
  bool running_ = false;                                // guarded by mutex_
  std::vector<std::shared_ptr<http::Signal>> waiting_;  // guarded by mutex_
  std::jthread thread_;                                 // last: ends before what it uses
};

}  // namespace

Routes routes(DeviceRoutesOptions options) {
  const auto cache = std::make_shared<DeviceCache>(std::move(options));
  const auto list = [cache](const ModelTable&, const http::Request&, http::Reply& reply) -> awaitable<void> {
    const Clock::time_point begin = Clock::now();
    const std::shared_ptr<http::Signal> signal = reply.signal();
    std::shared_ptr<const std::string> body = cache->get(signal);
    while (!body && !reply.client_gone() && !reply.out_of_time()) {
      co_await signal->wait();
      body = cache->newer_than(begin);
    }
    if (!body) co_return;
    co_await reply.send(200, "application/json", *body, {});
  };
  return {needs(people::Scope::kMonitorView, {"GET", "/v1/devices", list})};
}

}  // namespace quern::devices
