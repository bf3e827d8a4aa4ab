#include "hardware/thread_pool.h"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace quern {
namespace {

// Long enough to bridge the serial code between two loops of a forward pass, short enough that an idle pool costs
// nothing.
constexpr std::chrono::microseconds kSpin{40};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `ready()` or until the time is over; whether it was ready.
bool spin_until(auto ready, bool may_spin) {
  if (ready()) return true;
  if (!may_spin) return false;
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

// A loop is published as one word: its generation and how many of its tasks are not yet handed out. Whoever takes a
// task does so by a compare-exchange on that word, so nobody can take a task of a loop he has not seen, and a worker
// that sleeps or is off the processor holds nobody up: the caller waits only for tasks that were taken.
struct ThreadPool::Impl {
  static constexpr uint64_t kTasksMask = 0xffffffffu;

  alignas(64) std::atomic<uint64_t> open{0};      // generation << 32 | tasks not yet handed out
  alignas(64) std::atomic<uint32_t> finished{0};  // tasks of the current loop that are done
  alignas(64) std::atomic<uint32_t> wakeups{0};   // changes with each loop; what sleeping workers wait on
  std::atomic<bool> stop{false};

  // Written by the caller before a loop is published, read by those who hold a task of it.
  const std::function<void(int64_t, int32_t)>* body = nullptr;
  uint32_t num_tasks = 0;

  bool may_spin = true;
  std::vector<std::thread> workers;

  // Takes and runs tasks until none is left to take, then reports how many it did.
  void work(int32_t thread) {
    uint32_t done = 0;
    uint64_t seen = open.load(std::memory_order_acquire);
    while ((seen & kTasksMask) != 0) {
      if (!open.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      (*body)(num_tasks - static_cast<int64_t>(seen & kTasksMask), thread);
      ++done;
      seen = open.load(std::memory_order_acquire);
    }
    if (done == 0) return;
    // Until these tasks are reported the loop cannot end, so num_tasks is still that of the loop they belong to.
    const uint32_t total = num_tasks;
    if (finished.fetch_add(done, std::memory_order_acq_rel) + done == total && thread != 0) finished.notify_one();
  }

  void worker_main(int32_t thread) {
    const auto has_work = [&] {
      return (open.load(std::memory_order_relaxed) & kTasksMask) != 0 || stop.load(std::memory_order_relaxed);
    };
    while (!stop.load(std::memory_order_acquire)) {
      const uint32_t ticket = wakeups.load(std::memory_order_acquire);
      if (spin_until(has_work, may_spin)) {
        work(thread);
      } else {
        wakeups.wait(ticket, std::memory_order_acquire);
      }
    }
  }

  void run(int64_t tasks, const std::function<void(int64_t, int32_t)>& loop_body) {
    body = &loop_body;
    num_tasks = static_cast<uint32_t>(tasks);
    finished.store(0, std::memory_order_relaxed);
    const uint64_t generation = (open.load(std::memory_order_relaxed) >> 32) + 1;
    open.store(generation << 32 | num_tasks, std::memory_order_release);
    wakeups.fetch_add(1, std::memory_order_seq_cst);
    wakeups.notify_all();
    work(0);
    const auto all_done = [&] { return finished.load(std::memory_order_acquire) == num_tasks; };
    while (!spin_until(all_done, may_spin)) {
      const uint32_t now = finished.load(std::memory_order_acquire);
      if (now != num_tasks) finished.wait(now, std::memory_order_acquire);
    }
  }
};

ThreadPool::ThreadPool(int32_t num_threads) : impl_(std::make_unique<Impl>()) {
  QUERN_CHECK(num_threads >= 1);
  impl_->may_spin = num_threads <= usable_cpus();
  for (int32_t thread = 1; thread < num_threads; ++thread) {
    // A limit on threads makes the pool smaller, not unusable.
    try {
      impl_->workers.emplace_back([impl = impl_.get(), thread] { impl->worker_main(thread); });
    } catch (const std::system_error&) {
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true, std::memory_order_release);
  impl_->wakeups.fetch_add(1, std::memory_order_seq_cst);
  impl_->wakeups.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

int32_t ThreadPool::num_threads() const {
  return static_cast<int32_t>(impl_->workers.size()) + 1;
}

void ThreadPool::run(int64_t num_tasks, const std::function<void(int64_t task, int32_t thread)>& body) {
  QUERN_CHECK(num_tasks >= 0 && num_tasks < int64_t{1} << 32);
  if (num_tasks <= 1 || impl_->workers.empty()) {
    for (int64_t task = 0; task < num_tasks; ++task) body(task, 0);
    return;
  }
  impl_->run(num_tasks, body);
}

}  // namespace quern
