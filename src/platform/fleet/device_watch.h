// Measures the memory of this machine's devices, on a thread of its own: tools of vendors take their time, and hang
// when a driver does.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "platform/fleet/device_wish.h"

namespace quern {

class DeviceWatch {
 public:
  // What there is, and when it was begun to be measured, on the steady clock in milliseconds. On the watch's thread.
  using Tell = std::function<void(std::vector<DeviceMemory> devices, int64_t begun_ms)>;

  // Looks once at once, then once a minute; `tell` must not wait for the watch.
  explicit DeviceWatch(Tell tell);
  ~DeviceWatch();  // a tool that runs is ended

  // Thread-safe.
  void look_often(bool often);  // every five seconds: something depends on it
  void look_now();
  bool wait_for_first(std::chrono::milliseconds time_max);  // false: nothing was told in time

 private:
  void run(const std::stop_token& stop);

  const Tell tell_;
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  bool often_ = false, now_ = false, told_ = false;  // guarded by mutex_
  std::jthread thread_;                              // last: it ends first
};

}  // namespace quern
