// Decides what one step computes. A pure function: no clock, no memory, no device.
//
// There are no phases. A sequence has two counters, `computed` and `target` (tokens known so far); a step spends a
// token budget closing gaps. Decode is a gap of one, prefill a large gap, a prefix hit starts with `computed` > 0,
// preemption sets `computed` back to 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/block_groups.h"

namespace quern {

struct PlannerOptions {
  int32_t max_num_batched_tokens = 512;  // token budget of a step
  int32_t max_num_seqs = 64;             // running sequences
  // > 0: a gap larger than this gets at most this much of a step while others run or wait.
  int32_t long_prefill_tokens_max = 0;
  int32_t max_num_partial_prefills = 0;  // > 0: at most so many sequences get part of a larger gap in one step
  // > 0: all larger gaps together get at most this much of a step in which somebody decodes, so that the running
  // streams keep their pace.
  int32_t mixed_prefill_tokens_max = 0;
};

struct PlannerSequence {
  int64_t id = 0;
  int32_t computed = 0;
  int32_t target = 0;  // > computed
  int32_t blocks = 0;  // length of its block tables; waiting: that of a prefix hit, which admission will take
  // Blocks of all groups that no other sequence holds: what preempting a running one gives back, and what admitting a
  // waiting one takes out of free_blocks (cached blocks that become live). -1: `blocks` of each group. For a running
  // sequence any number below the truth is safe: another preemption, or one more step, makes up for it.
  int32_t exclusive_blocks = -1;
  // Tokens behind `target` that are guessed: run along with a gap of one where budget and free blocks allow.
  int32_t draft = 0;
  int32_t chunk_max = 0;  // > 0: at most so many tokens in one step (each of them wants logits, say)
  int32_t priority = 0;   // smaller is more important, as in vLLM
  int64_t arrival = 0;    // order of arrival
};

struct PlannedChunk {
  int64_t id = 0;
  int32_t tokens = 0;      // >= 1
  int32_t new_blocks = 0;  // of all groups, to acquire before running
};
struct Plan {
  std::vector<PlannedChunk> chunks;  // running first, in order; then admitted from waiting
  std::vector<int64_t> preempted;    // running sequences that give all blocks back and go to the head of waiting
  int32_t total_tokens = 0;
};

// `running` in order of admission; `waiting` in order of service. free_blocks: blocks that can be acquired now. Ids are
// unique. Rules, in this order:
//  1. Running sequences with a gap of one (decodes) get their token before any larger gap gets of the rest, both in
//  order.
//     A larger gap takes what fits in budget and blocks. Drafts of decodes come between the two, and never preempt.
//  2. A running sequence that cannot get one token's block preempts the least important running sequence (largest
//     priority, then latest arrival) that is less important than itself, until the block is there. When it is the least
//     important itself it gets nothing in this step and keeps its blocks: somebody more important moves on.
//  3. Waiting sequences are admitted in order, none is overtaken, while budget, max_num_seqs and blocks allow: there
//  must
//     be blocks for all its known tokens, for those running sequences still lack, and one of each group to spare for
//     each of them; what a group with a window gives back on the way counts once. Alone, a sequence is admitted if one
//     token fits. Nothing is admitted in a step that preempts.
// The most important sequence can take every other's blocks, so it always moves on if it fits the pool alone.
Plan make_plan(const PlannerOptions& options, std::span<const PlannerSequence> running,
               std::span<const PlannerSequence> waiting, int32_t free_blocks, const BlockGroups& groups);

// Blocks that the known tokens of a sequence will take beyond what it holds, where a step computes at most `chunk_max`
// of them.
int32_t lacking_blocks(const PlannerSequence& sequence, const BlockGroups& groups, int32_t chunk_max);

}  // namespace quern
