#include "hardware/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "hardware/cpu_topology.h"

namespace quern {
namespace {

// Each task counts itself; thread ids are checked; plain (non-atomic) results show that run() is a full barrier.
void expect_each_task_once(ThreadPool& pool, int64_t num_tasks) {
  std::vector<int> seen(static_cast<size_t>(num_tasks), 0);
  std::atomic<bool> thread_out_of_range = false;
  pool.run(num_tasks, [&](int64_t task, int32_t thread) {
    if (thread < 0 || thread >= pool.num_threads()) thread_out_of_range = true;
    ++seen[static_cast<size_t>(task)];
  });
  EXPECT_FALSE(thread_out_of_range);
  for (int count : seen) ASSERT_EQ(count, 1);
}

class ThreadPoolTest : public testing::TestWithParam<int32_t> {};

TEST_P(ThreadPoolTest, RunsEachTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_threads(), GetParam());
  for (int64_t num_tasks : {0, 1, 2, 3, 7, 64, 1000}) expect_each_task_once(pool, num_tasks);
}

TEST_P(ThreadPoolTest, LoopsFollowEachOtherWithoutMixing) {
  ThreadPool pool(GetParam());
  int64_t sum = 0, expected = 0;
  std::vector<int64_t> partial(8);
  for (int64_t loop = 0; loop < 3000; ++loop) {
    const int64_t num_tasks = loop % 9;
    pool.run(num_tasks, [&partial, loop](int64_t task, int32_t) { partial[static_cast<size_t>(task)] = loop + task; });
    for (int64_t task = 0; task < num_tasks; ++task) {
      sum += partial[static_cast<size_t>(task)];
      expected += loop + task;
    }
  }
  EXPECT_EQ(sum, expected);
}

TEST_P(ThreadPoolTest, WakesAfterSleeping) {
  ThreadPool pool(GetParam());
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    expect_each_task_once(pool, 50);
  }
}

// 16 is more threads than small machines have: the pool then does not spin.
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 16));

TEST(ThreadPool, SlowTaskDoesNotHoldOthersBack) {
  ThreadPool pool(2);
  std::atomic<int> others = 0;
  int seen_by_slow = -1;
  pool.run(20, [&](int64_t task, int32_t) {
    if (task != 0) {
      ++others;
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (others < 19 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    seen_by_slow = others;
  });
  EXPECT_EQ(seen_by_slow, 19);
}

TEST(ThreadPool, ThreadsBeginWithTheirOwnShare) {
  constexpr int32_t kThreads = 3;
  ThreadPool pool(kThreads);
  for (int loop = 0; loop < 50; ++loop) {
    std::atomic<int> begun = 0;
    std::vector<int32_t> thread_of(kThreads, -1);
    // No task ends before all have begun, so no thread can take a second one.
    pool.run(kThreads, [&](int64_t task, int32_t thread) {
      thread_of[static_cast<size_t>(task)] = thread;
      ++begun;
      while (begun < kThreads) std::this_thread::yield();
    });
    EXPECT_EQ(thread_of, (std::vector<int32_t>{0, 1, 2}));
  }
}

TEST(CpuTopology, CountsAreSane) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), usable_cpus());
}

TEST(CpuTopology, ParsesQuota) {
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  EXPECT_EQ(parse_cpu_max("400000 100000"), 4.0);
  for (const char* line : {"max 100000", "", "100000", "0 100000", "100000 0", "1x 100000", "100000 100000 "}) {
    EXPECT_EQ(parse_cpu_max(line), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace quern
