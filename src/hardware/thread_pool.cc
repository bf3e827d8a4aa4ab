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

// Each thread has a share of the loop, the same part of it every time, and what others have left when it is through
// with that: data that one loop leaves in a core's cache is used there by the next. Whoever takes a task does so by a
// compare-exchange on the share's word, so a worker that sleeps or is off the processor holds nobody up: its share is
// taken by others, and the caller waits only for tasks that were taken.
struct ThreadPool::Impl {
  // Tasks [begin, end) that nobody has taken yet: begin << 32 | end. The owner takes the first, others the last.
  struct alignas(64) Share {
    std::atomic<uint64_t> open{0};
  };

  std::vector<Share> shares;
  alignas(64) std::atomic<uint32_t> finished{0};  // tasks of the current loop that are done
  alignas(64) std::atomic<uint32_t> loops{0};     // begun so far: what workers wait for
  std::atomic<bool> stop{false};

  // Written by the caller before a loop's shares are, read by those who hold a task of it.
  const std::function<void(int64_t, int32_t)>* body = nullptr;
  uint32_t num_tasks = 0;

  bool may_spin = true;
  std::vector<std::thread> workers;

  // Runs what is left of a share, and returns how many tasks that were.
  uint32_t work_on(Share& share, bool is_own, int32_t thread) {
    uint32_t done = 0;
    uint64_t seen = share.open.load(std::memory_order_acquire);
    for (;;) {
      const auto begin = static_cast<uint32_t>(seen >> 32), end = static_cast<uint32_t>(seen);
      if (begin >= end) return done;
      const uint64_t rest = is_own ? seen + (uint64_t{1} << 32) : seen - 1;
      if (!share.open.compare_exchange_weak(seen, rest, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      (*body)(is_own ? begin : end - 1, thread);
      ++done;
      seen = share.open.load(std::memory_order_acquire);
    }
  }

  void work(int32_t thread) {
    const auto count = static_cast<int32_t>(shares.size());
    uint32_t done = 0;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t owner = (thread + i) % count;
      done += work_on(shares[static_cast<size_t>(owner)], owner == thread, thread);
    }
    if (done == 0) return;
    // Until these tasks are reported the loop cannot end, so num_tasks is still that of the loop they belong to.
    const uint32_t total = num_tasks;
    if (finished.fetch_add(done, std::memory_order_acq_rel) + done == total && thread != 0) finished.notify_one();
  }

  void worker_main(int32_t thread) {
    uint32_t seen = 0;
    const auto has_work = [&] {
      return loops.load(std::memory_order_acquire) != seen || stop.load(std::memory_order_relaxed);
    };
    while (!stop.load(std::memory_order_acquire)) {
      if (spin_until(has_work, may_spin)) {
        seen = loops.load(std::memory_order_acquire);
        work(thread);
      } else {
        loops.wait(seen, std::memory_order_acquire);
      }
    }
  }

  void run(int64_t tasks, const std::function<void(int64_t, int32_t)>& loop_body) {
    body = &loop_body;
    num_tasks = static_cast<uint32_t>(tasks);
    finished.store(0, std::memory_order_relaxed);
    const auto count = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < count; ++i) {
      const auto begin = static_cast<uint64_t>(i * tasks / count), end = static_cast<uint64_t>((i + 1) * tasks / count);
      shares[static_cast<size_t>(i)].open.store(begin << 32 | end, std::memory_order_release);
    }
    loops.fetch_add(1, std::memory_order_seq_cst);
    loops.notify_all();
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
  impl_->shares = std::vector<Impl::Share>(static_cast<size_t>(num_threads));
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
  impl_->loops.fetch_add(1, std::memory_order_seq_cst);
  impl_->loops.notify_all();
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
