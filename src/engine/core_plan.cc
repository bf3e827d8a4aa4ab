// The planner's view of the sequences, and making its plan true. The order of the steps is kv/block_table.h's.
#include <algorithm>

#include "base/check.h"
#include "engine/core.h"

namespace quern {

namespace {

bool served_before(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
  if (a->priority() != b->priority()) return a->priority() < b->priority();
  return a->arrival < b->arrival;
}

auto find_id(std::vector<std::unique_ptr<Sequence>>& list, int64_t id) {
  const auto found = std::ranges::find_if(list, [id](const auto& sequence) { return sequence->id == id; });
  QUERN_CHECK(found != list.end());
  return found;
}

}  // namespace

void EngineCore::insert_waiting(std::unique_ptr<Sequence> sequence) {
  // A preempted sequence or a late fork arrived before whoever still waits, so this puts it at the head of its
  // priority.
  const auto place = std::ranges::upper_bound(waiting_, sequence, served_before);
  waiting_.insert(place, std::move(sequence));
}

void EngineCore::describe_running() {
  // Counting who else holds a block is linear in the context; it matters only when somebody may have to be preempted.
  const int64_t blocks_wanted_max =
      options_.planner.max_num_batched_tokens / kKvBlockSize + 2 * int64_t(running_.size());
  const bool blocks_short = pool_->num_available() < blocks_wanted_max;
  running_view_.clear();
  for (const auto& sequence : running_) {
    running_view_.push_back({.id = sequence->id,
                             .computed = sequence->computed,
                             .target = sequence->target(),
                             .blocks = sequence->blocks.planned_blocks(sequence->computed),
                             .exclusive_blocks = blocks_short ? sequence->blocks.exclusive_blocks() : 0,
                             .priority = sequence->priority(),
                             .arrival = sequence->arrival});
  }
}

void EngineCore::describe_waiting() {
  waiting_view_.clear();
  const size_t admitted_max = static_cast<size_t>(options_.planner.max_num_seqs) - running_.size();
  for (const auto& sequence : waiting_) {
    if (waiting_view_.size() >= admitted_max) break;
    SequenceBlocks::PrefixMatch match;
    if (options_.enable_prefix_caching) match = sequence->blocks.match_prefix(sequence->tokens);
    waiting_view_.push_back({.id = sequence->id,
                             .computed = match.tokens,
                             .target = sequence->target(),
                             .blocks = match.blocks,
                             .exclusive_blocks = match.cached_blocks,
                             .priority = sequence->priority(),
                             .arrival = sequence->arrival});
  }
}

Plan EngineCore::plan() {
  describe_running();
  describe_waiting();
  return make_plan(options_.planner, running_view_, waiting_view_, pool_->num_available(), kKvBlockSize);
}

void EngineCore::adopt(const Plan& plan) {
  for (int64_t id : plan.preempted) preempt(id);
  chunks_.clear();
  const size_t num_running = running_.size();
  for (const PlannedChunk& chunk : plan.chunks) {
    auto found = std::ranges::find_if(running_, [&](const auto& sequence) { return sequence->id == chunk.id; });
    if (found == running_.end()) {
      admit(chunk.id);
      found = running_.end() - 1;
    } else {
      QUERN_CHECK(static_cast<size_t>(found - running_.begin()) < num_running);
    }
    chunks_.push_back({.sequence = found->get(), .tokens = chunk.tokens});
  }
  for (const Chunk& chunk : chunks_) {
    Sequence& sequence = *chunk.sequence;
    const auto copy = sequence.blocks.copy_for_write(sequence.computed);
    QUERN_CHECK(copy.has_value());
    if (*copy) runner_.copy_kv_block((*copy)->source, (*copy)->target);
    const bool grown = sequence.blocks.try_grow(sequence.computed + chunk.tokens);
    QUERN_CHECK(grown);
  }
}

void EngineCore::preempt(int64_t id) {
  const auto found = find_id(running_, id);
  std::unique_ptr<Sequence> sequence = std::move(*found);
  running_.erase(found);
  sequence->blocks.release();
  sequence->computed = 0;
  ++totals_.preemptions_total;
  insert_waiting(std::move(sequence));
}

void EngineCore::admit(int64_t id) {
  const auto found = find_id(waiting_, id);
  std::unique_ptr<Sequence> sequence = std::move(*found);
  waiting_.erase(found);
  if (options_.enable_prefix_caching) sequence->computed = sequence->blocks.acquire_prefix(sequence->tokens);
  if (!sequence->started) {
    sequence->started = true;
    sequence->first_scheduled = EngineClock::now();
    sequence->cached_tokens = sequence->computed;
    totals_.prefix_queries_total += static_cast<uint64_t>(sequence->prompt_tokens);
    totals_.prefix_hits_total += static_cast<uint64_t>(sequence->computed);
  }
  running_.push_back(std::move(sequence));
}

}  // namespace quern
