// Threads for one device: parallel loops inside an operation. Workers spin briefly for the next loop, then sleep, so
// that a busy neighbour costs its share and no more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace quern {

class ThreadPool {
 public:
  // num_threads counts the caller; 1 means no worker is started.
  explicit ThreadPool(int32_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t num_threads() const;

  // Calls body(task, thread) for every task in [0, num_tasks), each exactly once, and returns when all are done. Thread
  // t of T begins at task t * num_tasks / T: loops over the same things find them in the cache of the core that had
  // them last. A thread that is through takes what a slower one has left. thread < num_threads identifies scratch. Not
  // reentrant; one caller.
  void run(int64_t num_tasks, const std::function<void(int64_t task, int32_t thread)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Processors this process may run on (affinity and cgroup quota counted), at least 1.
int32_t usable_cpus();

}  // namespace quern
