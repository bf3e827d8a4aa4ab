// What this machine can do at best, to hold achieved numbers against: measured in the same run, on the same threads.
#pragma once

#include "hardware/thread_pool.h"

namespace quern {

struct CpuPeaks {
  double read_gbytes = 0;  // per second, from memory: each thread streams through its own part of 256 MB
  double int8_gmacs = 0;   // 10^9 multiply-adds per second of the integer dot instruction that packed weights use
  double f32_gmacs = 0;    // of fused multiply-adds in float32
  // 0 where the processor has no such instructions:
  double int8_tile_gmacs = 0;  // of matrix tiles
  double bf16_gmacs = 0;       // of bfloat16 pairs, by tiles or vectors, whichever is faster
};

// Takes about a second; the best of many short samples, so that a neighbour's bursts do not count.
CpuPeaks measure_cpu_peaks(ThreadPool& pool);

}  // namespace quern
