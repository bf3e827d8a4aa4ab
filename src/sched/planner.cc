#include "sched/planner.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace quern {
namespace {

int32_t gap(const PlannerSequence& sequence) {
  return sequence.target - sequence.computed;
}
bool decodes(const PlannerSequence& sequence) {
  return gap(sequence) == 1;
}

bool less_important(const PlannerSequence& a, const PlannerSequence& b) {
  return std::tie(a.priority, a.arrival, a.id) > std::tie(b.priority, b.arrival, b.id);
}

class Planner {
 public:
  Planner(const PlannerOptions& options, std::span<const PlannerSequence> running,
          std::span<const PlannerSequence> waiting, int32_t free_blocks, const BlockGroups& groups)
      : options_(options),
        running_(running),
        waiting_(waiting),
        free_blocks_(free_blocks),
        groups_(groups),
        block_size_(groups.block_size),
        num_groups_(groups.count()),
        budget_(options.max_num_batched_tokens),
        chunks_(running.size()),
        preempted_(running.size(), false) {
    QUERN_CHECK(options.max_num_batched_tokens > 0 && options.max_num_seqs > 0 && free_blocks >= 0);
    QUERN_CHECK(block_size_ > 0 && num_groups_ > 0);
    for (const auto sequences : {running, waiting}) {
      for (const PlannerSequence& sequence : sequences) {
        QUERN_CHECK(sequence.computed >= 0 && gap(sequence) > 0 && sequence.blocks >= 0 && sequence.draft >= 0);
      }
    }
  }

  Plan plan() {
    for (size_t i = 0; i < running_.size(); ++i) {
      if (decodes(running_[i])) give_running(i);
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].draft > 0 && chunks_[i].tokens == 1) give_draft(i);
    }
    limit_prefill();
    for (size_t i = 0; i < running_.size(); ++i) {
      if (!decodes(running_[i])) give_running(i);
    }
    Plan plan;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (preempted_[i]) plan.preempted.push_back(running_[i].id);
      if (chunks_[i].tokens > 0) plan.chunks.push_back(chunks_[i]);
    }
    if (plan.preempted.empty()) admit(plan);
    for (const PlannedChunk& chunk : plan.chunks) plan.total_tokens += chunk.tokens;
    return plan;
  }

 private:
  int32_t blocks_for(int32_t tokens) const { return tokens / block_size_ + (tokens % block_size_ != 0); }
  // By how many blocks each table grows, and what that takes from the pool.
  int32_t growth(const PlannerSequence& sequence, int32_t tokens) const {
    return std::max(0, blocks_for(sequence.computed + tokens) - sequence.blocks);
  }
  int32_t new_blocks(const PlannerSequence& sequence, int32_t tokens) const {
    return growth(sequence, tokens) * num_groups_;
  }
  int32_t exclusive_blocks(const PlannerSequence& sequence) const {
    return sequence.exclusive_blocks < 0 ? sequence.blocks * num_groups_ : sequence.exclusive_blocks;
  }

  int32_t lacking_blocks(const PlannerSequence& sequence) const {
    return quern::lacking_blocks(sequence, groups_, options_.max_num_batched_tokens);
  }

  // The most tokens of the gap that budget, long-prefill limit and `blocks` allow.
  PlannedChunk largest_chunk(const PlannerSequence& sequence, int32_t blocks) const {
    const bool larger = !decodes(sequence);
    int32_t tokens = std::min(gap(sequence), larger ? std::min(budget_, prefill_budget_) : budget_);
    if (larger && partial_prefills_ == 0) tokens = 0;
    if (sequence.chunk_max > 0) tokens = std::min(tokens, sequence.chunk_max);
    const int32_t limit = options_.long_prefill_tokens_max;
    if (running_.size() + waiting_.size() > 1 && limit > 0 && gap(sequence) > limit) tokens = std::min(tokens, limit);
    const int64_t capacity = (static_cast<int64_t>(sequence.blocks) + blocks / num_groups_) * block_size_;
    tokens = static_cast<int32_t>(std::clamp<int64_t>(capacity - sequence.computed, 0, tokens));
    return {.id = sequence.id, .tokens = tokens, .new_blocks = new_blocks(sequence, tokens)};
  }

  // Without a decode in the step nobody waits for it, and larger gaps may fill it.
  void limit_prefill() {
    const bool mixed = std::ranges::any_of(chunks_, [](const PlannedChunk& chunk) { return chunk.tokens > 0; });
    if (mixed && options_.mixed_prefill_tokens_max > 0) prefill_budget_ = options_.mixed_prefill_tokens_max;
    if (options_.max_num_partial_prefills > 0) partial_prefills_ = options_.max_num_partial_prefills;
  }

  void give_running(size_t i) {
    if (preempted_[i] || budget_ == 0) return;
    if (!decodes(running_[i]) && (prefill_budget_ == 0 || partial_prefills_ == 0)) return;
    while (new_blocks(running_[i], 1) > free_blocks_) {
      if (!preempt_for(i)) return;
    }
    chunks_[i] = largest_chunk(running_[i], free_blocks_);
    take(running_[i], chunks_[i]);
  }

  void give_draft(size_t i) {
    const PlannerSequence& sequence = running_[i];
    PlannedChunk& chunk = chunks_[i];
    const int64_t capacity =
        (int64_t{sequence.blocks} + (chunk.new_blocks + free_blocks_) / num_groups_) * block_size_ - sequence.computed;
    const auto tokens = static_cast<int32_t>(std::min<int64_t>({1 + sequence.draft, 1 + budget_, capacity}));
    const int32_t blocks = new_blocks(sequence, tokens);
    budget_ -= tokens - chunk.tokens;
    free_blocks_ -= blocks - chunk.new_blocks;
    chunk.tokens = tokens;
    chunk.new_blocks = blocks;
  }

  void take(const PlannerSequence& sequence, const PlannedChunk& chunk) {
    budget_ -= chunk.tokens;
    free_blocks_ -= chunk.new_blocks;
    if (chunk.tokens == 0 || decodes(sequence)) return;
    prefill_budget_ -= chunk.tokens;
    --partial_prefills_;
  }

  bool preempt_for(size_t needy) {
    size_t victim = needy;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (!preempted_[i] && less_important(running_[i], running_[victim])) victim = i;
    }
    if (victim == needy) return false;
    preempted_[victim] = true;
    budget_ += chunks_[victim].tokens;
    if (chunks_[victim].tokens > 0 && !decodes(running_[victim])) {
      prefill_budget_ += chunks_[victim].tokens;
      ++partial_prefills_;
    }
    free_blocks_ += chunks_[victim].new_blocks + exclusive_blocks(running_[victim]);
    chunks_[victim] = {};
    return true;
  }

  // As lacking_blocks(), behind this step's chunk.
  int32_t still_lacking(PlannerSequence sequence, const PlannedChunk& chunk) const {
    sequence.blocks += chunk.new_blocks / num_groups_;
    return lacking_blocks(sequence);
  }

  void admit(Plan& plan) {
    // Blocks that admitted sequences still lack for the tokens known, and one of each group to spare for each.
    int64_t reserved = 0;
    for (size_t i = 0; i < running_.size(); ++i) reserved += still_lacking(running_[i], chunks_[i]) + num_groups_;
    int32_t num_running = static_cast<int32_t>(running_.size());
    for (const PlannerSequence& sequence : waiting_) {
      if (budget_ == 0 || num_running >= options_.max_num_seqs) return;
      const int32_t blocks = free_blocks_ - exclusive_blocks(sequence);
      if (num_running > 0 && lacking_blocks(sequence) + reserved > blocks) return;
      const PlannedChunk chunk = largest_chunk(sequence, std::max(blocks, 0));
      if (blocks < 0 || chunk.tokens == 0) return;
      free_blocks_ = blocks;
      take(sequence, chunk);
      reserved += still_lacking(sequence, chunk) + num_groups_;
      plan.chunks.push_back(chunk);
      ++num_running;
    }
  }

  const PlannerOptions& options_;
  std::span<const PlannerSequence> running_;
  std::span<const PlannerSequence> waiting_;
  int32_t free_blocks_;
  const BlockGroups& groups_;
  const int32_t block_size_;
  const int32_t num_groups_;
  int32_t budget_;
  int32_t prefill_budget_ = std::numeric_limits<int32_t>::max() / 2;    // of larger gaps
  int32_t partial_prefills_ = std::numeric_limits<int32_t>::max() / 2;  // larger gaps that may still get some
  std::vector<PlannedChunk> chunks_;                                    // of running_[i]; tokens 0: none
  std::vector<bool> preempted_;
};

}  // namespace

int32_t lacking_blocks(const PlannerSequence& sequence, const BlockGroups& groups, int32_t chunk_max) {
  const int32_t size = groups.block_size;
  const int64_t grown = std::max(0, (sequence.target + size - 1) / size - sequence.blocks);
  int64_t lacking = 0;
  for (int32_t window : groups.windows) {
    int64_t of_group = grown;
    if (window > 0) {
      const int32_t freed = std::max(0, sequence.computed - window + 1) / size;
      const int64_t held = std::max(0, sequence.blocks - freed);
      of_group = std::clamp<int64_t>(window_blocks(window, chunk_max, size) - held, 0, grown);
    }
    lacking += of_group;
  }
  return static_cast<int32_t>(lacking);
}

Plan make_plan(const PlannerOptions& options, std::span<const PlannerSequence> running,
               std::span<const PlannerSequence> waiting, int32_t free_blocks, const BlockGroups& groups) {
  return Planner(options, running, waiting, free_blocks, groups).plan();
}

}  // namespace quern
