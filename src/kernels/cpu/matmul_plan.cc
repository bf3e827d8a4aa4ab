#include "kernels/cpu/matmul_plan.h"

#include <algorithm>

#include "kernels/cpu/matmul_float.h"
#include "kernels/cpu/matmul_quant.h"
#include "kernels/cpu/pack_layout.h"

namespace quern {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

// Rough speed of one core, to tell what a hand-over between threads (about a microsecond) is small against.
constexpr double kIntegerMacsPerUs = 100'000;
constexpr double kFloatMacsPerUs = 30'000;
constexpr double kBytesPerUs = 10'000;
constexpr double kTaskUsMin = 4;
constexpr double kTaskUsMax = 40;
constexpr int64_t kTasksPerThread = 4;  // so that a thread that loses its core to a neighbour leaves little behind

// Half of a small level 2 cache: one side of a product stays there while the other streams by.
constexpr int64_t kCacheBytes = 128 * 1024;

// Units (rows or panels) of `unit_us` each per task.
int64_t units_per_task(int64_t units, double unit_us, int32_t num_threads) {
  const double total_us = unit_us * static_cast<double>(units);
  const double task_us =
      std::clamp(total_us / static_cast<double>(kTasksPerThread * num_threads), kTaskUsMin, kTaskUsMax);
  const auto wanted = std::clamp<int64_t>(static_cast<int64_t>(task_us / unit_us), 1, units);
  // Near that, what lets the threads end together: the last round of tasks should be a whole one.
  int64_t best = wanted;
  const auto longest = [&](int64_t size) { return ceil_div(ceil_div(units, size), num_threads) * size; };
  for (int64_t size = std::max<int64_t>(1, wanted / 2); size <= std::min(units, 2 * wanted); ++size) {
    if (longest(size) < longest(best) || (longest(size) == longest(best) && size > best)) best = size;
  }
  return best;
}

}  // namespace

MatmulPlan MatmulPlan::in_place(int64_t rows, int64_t cols, int64_t num_tokens, int32_t num_threads) {
  MatmulPlan plan{.rows = rows, .num_tokens = num_tokens};
  // Three tokens at a time share a row; x of the chunk stays in the cache while rows pass by.
  constexpr int64_t kTokensTogether = 3;
  const int64_t fitting = kCacheBytes / static_cast<int64_t>(sizeof(float)) / cols;
  plan.token_chunk = std::max(kTokensTogether, std::min(num_tokens, fitting) / kTokensTogether * kTokensTogether);
  const double row_us = static_cast<double>(cols * std::min(num_tokens, plan.token_chunk)) / kFloatMacsPerUs;
  plan.row_chunk = round_up(units_per_task(rows, row_us, num_threads), kFloatTileRows);
  return plan;
}

MatmulPlan MatmulPlan::packed(int64_t rows, int64_t cols, int64_t num_tokens, size_t panel_bytes, int32_t num_threads) {
  MatmulPlan plan{.rows = rows, .num_tokens = num_tokens};
  // Kernels take two panels together for a few tokens, three for more.
  constexpr int64_t kFewTokens = 8;
  const int64_t unit_panels = num_tokens <= kFewTokens ? 2 : 3;
  const int64_t unit_rows = unit_panels * kPanelRows;
  const int64_t num_units = ceil_div(rows, unit_rows);
  const int64_t unit_bytes = unit_panels * static_cast<int64_t>(panel_bytes);
  if (num_tokens <= kTileTokens) {
    plan.token_chunk = kTileTokens;
    const double unit_us = std::max(static_cast<double>(unit_rows * cols * num_tokens) / kIntegerMacsPerUs,
                                    static_cast<double>(unit_bytes) / kBytesPerUs);
    plan.row_chunk = unit_rows * units_per_task(num_units, unit_us, num_threads);
    return plan;
  }
  // Many tiles: the panels of a task stay in the cache while the tiles pass by. Too few tasks: cut the tokens, then the
  // rows.
  const int64_t tasks_wanted = kTasksPerThread * num_threads;
  const int64_t num_tiles = ceil_div(num_tokens, kTileTokens);
  int64_t units = std::clamp<int64_t>(kCacheBytes / unit_bytes, 1, num_units);
  const int64_t token_chunks = std::clamp<int64_t>(tasks_wanted / ceil_div(num_units, units), 1, num_tiles);
  units = std::min(units, std::max<int64_t>(1, num_units * token_chunks / tasks_wanted));
  plan.row_chunk = unit_rows * units;
  plan.token_chunk = kTileTokens * ceil_div(num_tiles, token_chunks);
  return plan;
}

int64_t MatmulPlan::num_tasks() const {
  return ceil_div(rows, row_chunk) * ceil_div(num_tokens, token_chunk);
}

MatmulPlan::Part MatmulPlan::part(int64_t task) const {
  const int64_t token_chunks = ceil_div(num_tokens, token_chunk);
  const int64_t row_begin = task / token_chunks * row_chunk;
  const int64_t token_begin = task % token_chunks * token_chunk;
  return {row_begin, std::min(row_begin + row_chunk, rows), token_begin,
          std::min(token_begin + token_chunk, num_tokens)};
}

}  // namespace quern
