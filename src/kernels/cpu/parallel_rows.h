// How an operation on independent rows is spread over threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hardware/thread_pool.h"

namespace quern::cpu {

// Calls body(first row, end row, thread) over [0, rows). element_cost is the rough time of a row's element, in units of
// a streaming add (about 0.3 ns). Work that is not worth waking a thread for stays with the caller.
void parallel_rows(ThreadPool& pool, int64_t rows, int64_t cols, int64_t element_cost, const auto& body) {
  constexpr int64_t kTaskCost = 16384;  // about 5 us: ten times what handing out a loop costs
  const int64_t row_cost = std::max<int64_t>(1, cols * element_cost);
  const int64_t threads = pool.num_threads();
  // Whole rounds of tasks, so that no thread waits for another's second one.
  const int64_t rounds = (rows * row_cost / kTaskCost + threads - 1) / threads;
  if (rounds == 0 || rows <= 1) {
    if (rows > 0) body(int64_t{0}, rows, int32_t{0});
    return;
  }
  const int64_t rows_per_task = (rows + rounds * threads - 1) / (rounds * threads);
  pool.run((rows + rows_per_task - 1) / rows_per_task, [&](int64_t task, int32_t thread) {
    const int64_t begin = task * rows_per_task;
    body(begin, std::min(rows, begin + rows_per_task), thread);
  });
}

}  // namespace quern::cpu
