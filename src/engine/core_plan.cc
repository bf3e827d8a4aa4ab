// The planner's view of the sequences, and making its plan true. The order of the steps is
// kv/grouped_blocks.h's.
#include <algorithm>
#include <utility>

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

void EngineCore::count_spare_rows() {
  const RunnerOptions& limits = runner_.options();
  rows_are_scarce_ = limits.max_logits_rows < options_.planner.max_num_batched_tokens;
  spare_rows_ = rows_are_scarce_ ? std::max(0, limits.max_logits_rows - options_.planner.max_num_seqs)
                                 : options_.planner.max_num_batched_tokens;
}

// A prompt that is scored wants logits of each token. One at a time gets the rows that are left.
int32_t EngineCore::chunk_max(const Sequence& sequence) {
  if (!rows_are_scarce_ || !sequence.scores_prompt()) return 0;
  return 1 + std::exchange(spare_rows_, 0);
}

// Guesses are made of what a step has to spare; while prompts are computed, these are what it goes to.
bool EngineCore::computes_prompts() const {
  return std::ranges::any_of(running_,
                             [](const auto& sequence) { return sequence->computed + 1 < sequence->target(); });
}

void EngineCore::propose_drafts() {
  const bool guesses = !computes_prompts();
  int32_t tokens = options_.planner.max_num_batched_tokens - static_cast<int32_t>(running_.size());
  for (const auto& sequence : running_) {
    sequence->draft.clear();
    if (!guesses || sequence->drafter == nullptr || sequence->computed + 1 != sequence->target()) continue;
    // What comes after the last token is never computed, so it is not worth a guess.
    const auto output = static_cast<int32_t>(sequence->output().size());
    const int32_t room = std::min({spare_rows_, tokens, sequence->valid->max_output_tokens - output - 1});
    if (room <= 0) continue;
    propose_draft(*sequence, room);
    // A guess that the grammar forbids cannot come true.
    if (sequence->grammar && !sequence->draft.empty()) {
      sequence->draft.resize(sequence->grammar->count_allowed(sequence->draft));
    }
    spare_rows_ -= static_cast<int32_t>(sequence->draft.size());
    tokens -= static_cast<int32_t>(sequence->draft.size());
  }
}

void EngineCore::propose_draft(Sequence& sequence, int32_t room) {
  if (sequence.drafter->method() != Speculation::kDraft) {
    return sequence.drafter->propose(sequence.tokens, room, corpus_, sequence.draft);
  }
  const int32_t count = std::min(sequence.drafter->next_length(), room);
  if (count == 0 || options_.draft == nullptr) return;
  options_.draft->propose({.sequence = sequence.id,
                           .tokens = sequence.tokens,
                           .prompt_tokens = sequence.prompt_tokens,
                           .sampling = &sequence.valid->sampling},
                          count, sequence.draft);
}

double EngineCore::draft_cost(const Sequence& sequence) const {
  double cost = pace_.guess_cost(num_decodes_);
  if (sequence.drafter->method() == Speculation::kDraft && options_.draft != nullptr) {
    const double share = pace_.decode_seconds(num_decodes_) / std::max(num_decodes_, 1);
    if (share > 0) cost += options_.draft->token_seconds() / share;
  }
  return cost;
}

void EngineCore::describe_running() {
  // Counting who else holds a block is linear in the context; it matters only when somebody may have to be preempted.
  const int64_t blocks_wanted_max =
      (options_.planner.max_num_batched_tokens / kKvBlockSize + 2 * int64_t(running_.size())) * groups_.count();
  const bool blocks_short = pool_->num_available() < blocks_wanted_max;
  running_view_.clear();
  for (const auto& sequence : running_) {
    running_view_.push_back({.id = sequence->id,
                             .computed = sequence->computed,
                             .target = sequence->target(),
                             .blocks = sequence->blocks.planned_blocks(sequence->computed),
                             .exclusive_blocks = blocks_short ? sequence->blocks.exclusive_blocks() : 0,
                             .draft = static_cast<int32_t>(sequence->draft.size()),
                             .chunk_max = chunk_max(*sequence),
                             .priority = sequence->priority(),
                             .arrival = sequence->arrival});
  }
}

void EngineCore::order_waiting(size_t count) {
  service_order_.clear();
  for (size_t begin = 0; begin < waiting_.size() && service_order_.size() < count;) {
    const int32_t priority = waiting_[begin]->priority();
    const uint64_t tenant = waiting_[begin]->valid->request.tenant;
    size_t end = begin;
    bool one_tenant = true;
    waiting_tenants_.clear();
    for (; end < waiting_.size() && waiting_[end]->priority() == priority; ++end) {
      const Sequence& sequence = *waiting_[end];
      one_tenant &= sequence.valid->request.tenant == tenant;
      waiting_tenants_.push_back({sequence.valid->request.tenant, static_cast<double>(sequence.target())});
    }
    if (one_tenant) {
      for (size_t i = begin; i < end; ++i) service_order_.push_back(waiting_[i].get());
    } else {
      fair_.order(waiting_tenants_, count, fair_order_);
      for (size_t i : fair_order_) service_order_.push_back(waiting_[begin + i].get());
    }
    begin = end;
  }
}

int32_t EngineCore::wanted_blocks(const PlannerSequence& sequence) const {
  return lacking_blocks(sequence, groups_, options_.planner.max_num_batched_tokens) + groups_.count();
}

void EngineCore::describe_waiting() {
  waiting_view_.clear();
  int64_t room = pool_->num_available();
  for (const PlannerSequence& sequence : running_view_) room -= wanted_blocks(sequence);
  const size_t admitted_max = static_cast<size_t>(options_.planner.max_num_seqs) - running_.size();
  order_waiting(admitted_max);
  for (Sequence* sequence : service_order_) {
    if (waiting_view_.size() >= admitted_max) break;
    GroupedBlocks::PrefixMatch match;
    if (options_.enable_prefix_caching && !sequence->scores_prompt()) {
      match = sequence->blocks.match_prefix(sequence->tokens);
      if (restore(*sequence, match, room)) match = sequence->blocks.match_prefix(sequence->tokens);
    }
    waiting_view_.push_back({.id = sequence->id,
                             .computed = match.tokens,
                             .target = sequence->target(),
                             .blocks = match.blocks,
                             .exclusive_blocks = match.cached_blocks,
                             .chunk_max = chunk_max(*sequence),
                             .priority = sequence->priority(),
                             .arrival = sequence->arrival});
    room -= match.cached_blocks + wanted_blocks(waiting_view_.back());
  }
}

Plan EngineCore::plan() {
  count_spare_rows();
  propose_drafts();
  describe_running();
  describe_waiting();
  PlannerOptions options = options_.planner;
  const auto decodes = std::ranges::count_if(
      running_view_, [](const PlannerSequence& sequence) { return sequence.computed + 1 == sequence.target; });
  const auto places = static_cast<int64_t>(options.max_num_seqs) - decodes;
  const int64_t newcomers = std::min<int64_t>(places, std::ssize(running_) - decodes + std::ssize(waiting_));
  int32_t guesses = 0;
  for (const PlannerSequence& sequence : running_view_) guesses += sequence.draft;
  options.mixed_prefill_tokens_max =
      pace_.prefill_tokens_max(static_cast<int32_t>(decodes), static_cast<int32_t>(newcomers), guesses);
  return make_plan(options, running_view_, waiting_view_, pool_->num_available(), groups_);
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
    const int32_t guesses = std::max(0, sequence.computed + chunk.tokens - sequence.target());
    sequence.draft.resize(static_cast<size_t>(guesses));
    copies_.clear();
    const bool copied = sequence.blocks.try_copy_for_write(sequence.computed, copies_);
    QUERN_CHECK(copied);
    for (const auto& copy : copies_) runner_.copy_kv_block(copy.source, copy.target);
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
  sequence->disk_checked = false;
  ++totals_.preemptions_total;
  insert_waiting(std::move(sequence));
}

void EngineCore::admit(int64_t id) {
  const auto found = find_id(waiting_, id);
  std::unique_ptr<Sequence> sequence = std::move(*found);
  waiting_.erase(found);
  if (options_.enable_prefix_caching && !sequence->scores_prompt()) {
    sequence->computed = sequence->blocks.acquire_prefix(sequence->tokens);
  }
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
