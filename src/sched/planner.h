// Decides what one step computes. A pure function: no clock, no memory, no device.
//
// There are no phases. A sequence has two counters, `computed` and `target` (tokens known so far); a step spends a
// token budget closing gaps. Decode is a gap of one, prefill a large gap, a prefix hit starts with `computed` > 0,
// preemption sets `computed` back to 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

struct PlannerOptions {
  int32_t max_num_batched_tokens = 512;  // token budget of a step
  int32_t max_num_seqs = 64;             // running sequences
  int32_t long_prefill_tokens_max = 0;  // > 0: a gap larger than this gets at most this much of a step while others run
};

struct PlannerSequence {
  int64_t id = 0;
  int32_t computed = 0;
  int32_t target = 0;    // > computed
  int32_t blocks = 0;    // KV blocks it holds
  int32_t priority = 0;  // smaller is more important, as in vLLM
  int64_t arrival = 0;   // order of arrival
};

struct PlannedChunk {
  int64_t id = 0;
  int32_t tokens = 0;      // >= 1
  int32_t new_blocks = 0;  // blocks to acquire before running
};
struct Plan {
  std::vector<PlannedChunk> chunks;  // running first, in order; then admitted from waiting
  std::vector<int64_t> preempted;    // running sequences that give all blocks back and go to the head of waiting
  int32_t total_tokens = 0;
};

// `running` in order of admission; `waiting` in order of service. free_blocks: blocks that can be acquired now.
Plan make_plan(const PlannerOptions& options, std::span<const PlannerSequence> running,
               std::span<const PlannerSequence> waiting, int32_t free_blocks, int32_t block_size);

}  // namespace quern
