#include "server/door/lease_wait.h"

#include <mutex>

namespace quern::door {
namespace {

// Shared by the coroutine and the fleet's thread.
struct Slot {
  std::mutex mutex;
  std::optional<Fleet::LeaseResult> result;  // guarded by mutex
  bool abandoned = false;                    // guarded by mutex
  std::shared_ptr<http::Signal> signal;

  void fill(Fleet::LeaseResult filled) {
    {
      const std::lock_guard lock(mutex);
      if (!abandoned) {
        result.emplace(std::move(filled));
        signal->notify();
        return;
      }
    }
    if (filled) (*filled)->finish(Lease::Outcome::kAbandoned);
  }
  std::optional<Fleet::LeaseResult> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(result, std::nullopt);
  }
  std::optional<Fleet::LeaseResult> take_or_abandon() {
    const std::lock_guard lock(mutex);
    abandoned = !result;
    return std::exchange(result, std::nullopt);
  }
};

}  // namespace

http::asio::awaitable<std::optional<Fleet::LeaseResult>> wait_for_lease(Fleet& fleet, RouteRequest request,
                                                                        std::chrono::milliseconds patience,
                                                                        http::Reply& reply) {
  const auto slot = std::make_shared<Slot>();
  slot->signal = reply.signal();
  fleet.lease(std::move(request), patience, [slot](Fleet::LeaseResult result) { slot->fill(std::move(result)); });
  for (;;) {
    if (auto result = slot->take()) co_return result;
    if (reply.client_gone() || reply.out_of_time()) co_return slot->take_or_abandon();
    co_await slot->signal->wait();
  }
}

}  // namespace quern::door
