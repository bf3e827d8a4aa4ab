#include "platform/fleet/device_watch.h"

#include <chrono>

namespace quern {
namespace {

constexpr std::chrono::seconds kSeldom{60}, kOften{5};

int64_t watch_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

DeviceWatch::DeviceWatch(Tell tell) : tell_(std::move(tell)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

DeviceWatch::~DeviceWatch() {
  thread_.request_stop();
}

void DeviceWatch::look_often(bool often) {
  const std::lock_guard lock(mutex_);
  if (often == often_) return;
  often_ = often;
  wakes_.notify_all();
}

void DeviceWatch::look_now() {
  const std::lock_guard lock(mutex_);
  now_ = true;
  wakes_.notify_all();
}

bool DeviceWatch::wait_for_first(std::chrono::milliseconds time_max) {
  std::unique_lock lock(mutex_);
  return wakes_.wait_for(lock, time_max, [this] { return told_; });
}

void DeviceWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const int64_t begun = watch_ms();
    std::vector<DeviceMemory> devices = device_memories(take_inventory({}, stop));
    if (stop.stop_requested()) return;  // what was cut short says nothing
    tell_(std::move(devices), begun);
    std::unique_lock lock(mutex_);
    told_ = true;
    wakes_.notify_all();
    const auto end = std::chrono::steady_clock::now();
    while (!stop.stop_requested() && !std::exchange(now_, false)) {
      const auto until = end + (often_ ? kOften : kSeldom);
      if (std::chrono::steady_clock::now() >= until) break;
      wakes_.wait_until(lock, stop, until, [this, often = often_] { return now_ || often_ != often; });
    }
  }
}

}  // namespace quern
