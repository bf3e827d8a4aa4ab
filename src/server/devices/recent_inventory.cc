#include "server/devices/recent_inventory.h"

#include <mutex>

namespace quern::devices {

std::shared_ptr<const Inventory> recent_inventory(std::chrono::seconds age_max) {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static std::shared_ptr<const Inventory> taken;  // guarded by mutex
  static Clock::time_point time;                  // guarded by mutex
  const std::lock_guard lock(mutex);              // who comes while one is taken waits for it
  if (taken && Clock::now() - time < age_max) return taken;
  taken = std::make_shared<const Inventory>(take_inventory({}));
  time = Clock::now();
  return taken;
}

}  // namespace quern::devices
