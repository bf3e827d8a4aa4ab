#include "world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <tuple>

#include "base/status.h"

namespace quern::sim {
namespace {

std::unexpected<Error> broken(std::string what) {
  return make_error(ErrorCode::kInternal, std::move(what));
}

std::string describe(const Plan& plan) {
  std::string text;
  for (const PlannedChunk& chunk : plan.chunks)
    text += fmt::format(" {}:{}+{}b", chunk.id, chunk.tokens, chunk.new_blocks);
  for (int64_t id : plan.preempted) text += fmt::format(" -{}", id);
  return text;
}

}  // namespace

void Counts::add(const Counts& other) {
  steps += other.steps;
  tokens += other.tokens;
  finished += other.finished;
  cancelled += other.cancelled;
  preempted += other.preempted;
  forked += other.forked;
  copied += other.copied;
  hit_tokens += other.hit_tokens;
  window_freed += other.window_freed;
  mixed_hit_tokens += other.mixed_hit_tokens;
  guessed += other.guessed;
  guessed_right += other.guessed_right;
}

World::World(uint64_t seed, bool trace) : random_(seed), trace_(trace) {
  make_settings();
  make_requests();
}

void World::make_settings() {
  groups_.block_size = pick(1, 6);
  if (pick(0, 1) == 0) {
    groups_.windows.resize(static_cast<size_t>(pick(1, 3)));
    for (int32_t& window : groups_.windows) window = pick(0, 2) == 0 ? 0 : pick(1, 12);
  }
  model_.windows = groups_.windows;
  const int32_t num_blocks = pick(3, 30) * groups_.count();
  pool_ = std::move(BlockPool::create(num_blocks)).value();
  kv_.assign(static_cast<size_t>(num_blocks * groups_.block_size), 0);
  options_ = {.max_num_batched_tokens = pick(1, 24),
              .max_num_seqs = pick(1, 7),
              .long_prefill_tokens_max = pick(0, 2) == 0 ? pick(1, 12) : 0,
              .max_num_partial_prefills = pick(0, 3) == 0 ? pick(1, 3) : 0,
              .mixed_prefill_tokens_max = pick(0, 3) == 0 ? pick(1, 8) : 0};
  by_priority_ = pick(0, 2) == 0;
  fork_percent_ = pick(0, 1) == 0 ? pick(1, 12) : 0;
  draft_max_ = pick(0, 1) == 0 ? pick(1, 6) : 0;
  right_percent_ = pick(0, 100);
}

// Prompts begin with a few common texts, so that prefixes are shared.
void World::make_requests() {
  std::vector<std::vector<int32_t>> texts(static_cast<size_t>(pick(1, 3)));
  for (auto& text : texts) {
    for (int i = 0; i < 40; ++i) text.push_back(pick(0, kVocabSize - 1));
  }
  // What can finish alone, token by token if it must be.
  const auto capacity = static_cast<int32_t>(tokens_that_fit(groups_, pool_->num_blocks(), 1, 200));
  const bool cancels = pick(0, 1) == 0;
  const int32_t spread = pick(0, 60);
  requests_.resize(static_cast<size_t>(pick(1, 12)));
  for (Request& request : requests_) {
    const int32_t prompt = pick(1, std::min(40, capacity - 1));
    const auto& text = texts[static_cast<size_t>(pick(0, static_cast<int32_t>(texts.size()) - 1))];
    request.prompt.assign(text.begin(), text.begin() + pick(0, prompt));
    while (request.prompt.size() < static_cast<size_t>(prompt)) request.prompt.push_back(pick(0, kVocabSize - 1));
    request.length = static_cast<size_t>(prompt + pick(1, std::min(20, capacity - prompt)));
    request.arrival_step = pick(0, spread);
    if (cancels && pick(0, 3) == 0) request.cancel_step = request.arrival_step + pick(0, 30);
    request.n = pick(0, 4) == 0 ? pick(2, 4) : 1;
    request.priority = by_priority_ ? pick(0, 2) : 0;
    request.salt = static_cast<uint64_t>(pick(0, 5) == 0);
  }
  std::ranges::stable_sort(requests_, {}, &Request::arrival_step);
}

Status World::run() {
  int64_t work = 0;
  for (const Request& request : requests_) work += static_cast<int64_t>(request.length) * request.n;
  while (arrived_ < requests_.size() || !running_.empty() || !waiting_.empty()) {
    const auto at_step = [&](const Error& error) { return broken(fmt::format("step {}: {}", step_, error.message)); };
    // Each step moves someone on, and work is lost only to somebody more important: all ends within a multiple of the
    // work.
    const int64_t steps_max = 200 + 8 * (work + counts_.forked * 60);
    if (step_ > steps_max) return at_step({ErrorCode::kInternal, fmt::format("not ended after {} steps", steps_max)});
    arrive();
    cancel();
    fork_somewhere();
    const Plan decided = plan();
    if (trace_) {
      std::printf("step %lld: %zu running, %zu waiting, %d available:%s\n", static_cast<long long>(step_),
                  running_.size(), waiting_.size(), pool_->num_available(), describe(decided).c_str());
    }
    if (const Status status = take_step(decided); !status) return at_step(status.error());
    ++step_;
    ++counts_.steps;
    counts_.tokens += decided.total_tokens;
  }
  if (pool_->num_live() != 0) return broken(fmt::format("{} blocks live after the end", pool_->num_live()));
  return {};
}

Status World::take_step(const Plan& plan) {
  QUERN_TRY(check_plan(plan));
  QUERN_TRY(apply(plan));
  return check_blocks();
}

void World::arrive() {
  for (; arrived_ < requests_.size() && requests_[arrived_].arrival_step <= step_; ++arrived_) {
    const Request& request = requests_[arrived_];
    waiting_.push_back(std::make_unique<Sequence>(
        Sequence{.id = next_id_++,
                 .request = arrived_,
                 .arrival = static_cast<int64_t>(arrived_),
                 .stream = 0,
                 .given = request.prompt,
                 .tokens = request.prompt,
                 .length = request.length,
                 .forks_wanted = request.n - 1,
                 .blocks = GroupedBlocks(*pool_, groups_.windows, request.salt, groups_.block_size)}));
    if (by_priority_) {
      std::ranges::stable_sort(waiting_, [&](const auto& a, const auto& b) { return goes_before(*a, *b); });
    }
  }
}

bool World::goes_before(const Sequence& a, const Sequence& b) const {
  return std::tuple(requests_[a.request].priority, a.arrival, a.id) <
         std::tuple(requests_[b.request].priority, b.arrival, b.id);
}

void World::cancel() {
  const auto is_cancelled = [&](const SequencePtr& sequence) {
    const int64_t at = requests_[sequence->request].cancel_step;
    return at >= 0 && at <= step_;
  };
  counts_.cancelled += static_cast<int64_t>(std::erase_if(running_, is_cancelled));
  counts_.cancelled += static_cast<int64_t>(std::erase_if(waiting_, is_cancelled));
}

World::SequencePtr World::fork_of(const Sequence& parent, uint64_t stream) {
  ++counts_.forked;
  return std::make_unique<Sequence>(Sequence{.id = next_id_++,
                                             .request = parent.request,
                                             .arrival = parent.arrival,
                                             .stream = stream,
                                             .given = parent.tokens,
                                             .tokens = parent.tokens,
                                             .length = parent.length,
                                             .computed = parent.computed,
                                             .blocks = parent.blocks.fork(parent.computed)});
}

// Forks in the middle of an answer, as a beam search does.
void World::fork_somewhere() {
  if (running_.empty() || running_.size() >= static_cast<size_t>(options_.max_num_seqs)) return;
  if (pick(1, 100) > fork_percent_ || counts_.forked > 20) return;
  const Sequence& parent = *running_[static_cast<size_t>(pick(0, static_cast<int32_t>(running_.size()) - 1))];
  running_.push_back(fork_of(parent, static_cast<uint64_t>(next_id_) + 100));
}

PlannerSequence World::describe_running(const Sequence& sequence) const {
  return {.id = sequence.id,
          .computed = sequence.computed,
          .target = static_cast<int32_t>(sequence.tokens.size()),
          .blocks = sequence.blocks.planned_blocks(sequence.computed),
          .exclusive_blocks = sequence.blocks.exclusive_blocks(),
          .draft = static_cast<int32_t>(sequence.draft.size()),
          .priority = requests_[sequence.request].priority,
          .arrival = sequence.arrival};
}

Plan World::plan() {
  std::vector<PlannerSequence> running;
  for (const SequencePtr& sequence : running_) {
    guess(*sequence);
    running.push_back(describe_running(*sequence));
  }
  std::vector<PlannerSequence> waiting;
  for (const SequencePtr& sequence : waiting_) {
    const auto match = sequence->blocks.match_prefix(sequence->tokens);
    sequence->computed = match.tokens;
    waiting.push_back({.id = sequence->id,
                       .computed = match.tokens,
                       .target = static_cast<int32_t>(sequence->tokens.size()),
                       .blocks = match.blocks,
                       .exclusive_blocks = match.cached_blocks,
                       .priority = requests_[sequence->request].priority,
                       .arrival = sequence->arrival});
  }
  return make_plan(options_, running, waiting, pool_->num_available(), groups_);
}

const std::vector<int32_t>& World::solo_run(Sequence& sequence) const {
  if (sequence.alone.empty()) {
    sequence.alone = model_.solo(sequence.given, sequence.length, requests_[sequence.request].salt, sequence.stream);
  }
  return sequence.alone;
}

// Guesses that are right as often as the history's dice say.
void World::guess(Sequence& sequence) {
  sequence.draft.clear();
  if (draft_max_ == 0 || static_cast<size_t>(sequence.computed) + 1 != sequence.tokens.size()) return;
  const auto room = static_cast<int32_t>(sequence.length - sequence.tokens.size()) - 1;
  const int32_t count = std::min(pick(0, draft_max_), room);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t right = solo_run(sequence)[sequence.tokens.size() + static_cast<size_t>(i)];
    sequence.draft.push_back(pick(1, 100) <= right_percent_ ? right : pick(0, kVocabSize - 1));
  }
}

World::Sequence* World::find_running(int64_t id) const {
  const auto found = std::ranges::find(running_, id, [](const SequencePtr& sequence) { return sequence->id; });
  return found == running_.end() ? nullptr : found->get();
}

Status World::check_plan(const Plan& plan) const {
  std::set<int64_t> ids;
  int32_t total = 0;
  size_t admitted = 0;
  for (const PlannedChunk& chunk : plan.chunks) {
    if (!ids.insert(chunk.id).second) return broken(fmt::format("sequence {} planned twice", chunk.id));
    if (chunk.tokens < 1) return broken(fmt::format("sequence {} planned with {} tokens", chunk.id, chunk.tokens));
    total += chunk.tokens;
    if (find_running(chunk.id)) {
      if (admitted > 0) return broken("a running sequence is planned behind an admitted one");
    } else if (admitted >= waiting_.size() || waiting_[admitted++]->id != chunk.id) {
      return broken(fmt::format("sequence {} was admitted out of order", chunk.id));
    }
  }
  for (int64_t id : plan.preempted) {
    if (!find_running(id)) return broken(fmt::format("sequence {} preempted, but it does not run", id));
    if (!ids.insert(id).second) return broken(fmt::format("sequence {} both preempted and planned", id));
  }
  if (total != plan.total_tokens) return broken(fmt::format("{} tokens planned, {} said", total, plan.total_tokens));
  if (total > options_.max_num_batched_tokens) return broken(fmt::format("budget exceeded: {} tokens", total));
  if (running_.size() + admitted - plan.preempted.size() > static_cast<size_t>(options_.max_num_seqs)) {
    return broken("max_num_seqs exceeded");
  }
  if (!running_.empty() && plan.preempted.size() == running_.size()) return broken("everybody was preempted");
  if (plan.chunks.empty() && plan.preempted.empty() && !(running_.empty() && waiting_.empty())) {
    return broken("a step without progress");
  }
  // A decode may go without only for want of budget or blocks.
  if (plan.preempted.empty() && pool_->num_available() >= groups_.count() * static_cast<int32_t>(running_.size()) &&
      running_.size() <= static_cast<size_t>(options_.max_num_batched_tokens)) {
    for (const SequencePtr& sequence : running_) {
      const bool decodes = static_cast<size_t>(sequence->computed) + 1 == sequence->tokens.size();
      if (decodes && !ids.contains(sequence->id)) return broken(fmt::format("decode {} left out", sequence->id));
    }
  }
  return {};
}

Status World::apply(const Plan& plan) {
  preempt(plan);
  QUERN_TRY(admit(plan));
  for (const PlannedChunk& chunk : plan.chunks) QUERN_TRY(take_blocks(*find_running(chunk.id), chunk));
  std::vector<SequencePtr> born;
  for (const PlannedChunk& chunk : plan.chunks) {
    Sequence& sequence = *find_running(chunk.id);
    if (!sequence.draft.empty()) {
      run_draft(sequence);
      continue;
    }
    run_chunk(sequence, chunk.tokens);
    if (static_cast<size_t>(sequence.computed) == sequence.tokens.size()) emit(sequence, born);
  }
  for (SequencePtr& sequence : born) {
    const bool done = sequence->tokens.size() >= sequence->length;
    if (done || running_.size() < static_cast<size_t>(options_.max_num_seqs)) {
      running_.push_back(std::move(sequence));
    } else {
      sequence->blocks.release();
      sequence->computed = 0;
      add_waiting(std::move(sequence));
    }
  }
  return finish();
}

void World::add_waiting(SequencePtr sequence) {
  const auto place = std::ranges::find_if(
      waiting_, [&](const SequencePtr& other) { return !by_priority_ || goes_before(*sequence, *other); });
  waiting_.insert(place, std::move(sequence));
}

void World::preempt(const Plan& plan) {
  for (auto id = plan.preempted.rbegin(); id != plan.preempted.rend(); ++id) {
    const auto found = std::ranges::find(running_, *id, [](const SequencePtr& sequence) { return sequence->id; });
    SequencePtr sequence = std::move(*found);
    running_.erase(found);
    sequence->blocks.release();
    sequence->computed = 0;
    ++counts_.preempted;
    add_waiting(std::move(sequence));
  }
}

Status World::admit(const Plan& plan) {
  for (const PlannedChunk& chunk : plan.chunks) {
    if (waiting_.empty() || waiting_.front()->id != chunk.id) continue;
    Sequence& sequence = *waiting_.front();
    const int32_t planned = sequence.computed;
    sequence.computed = sequence.blocks.acquire_prefix(sequence.tokens);
    if (sequence.computed != planned) return broken(fmt::format("sequence {} lost its prefix", sequence.id));
    if (static_cast<size_t>(sequence.computed) >= sequence.tokens.size()) return broken("a hit of all tokens");
    counts_.hit_tokens += sequence.computed;
    if (groups_.count() > 1) counts_.mixed_hit_tokens += sequence.computed;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return {};
}

Status World::take_blocks(Sequence& sequence, const PlannedChunk& chunk) {
  const int32_t before = pool_->num_available();
  const auto guesses = sequence.computed + chunk.tokens - static_cast<int32_t>(sequence.tokens.size());
  sequence.draft.resize(static_cast<size_t>(std::max(0, guesses)));
  std::vector<SequenceBlocks::BlockCopy> copies;
  if (!sequence.blocks.try_copy_for_write(sequence.computed, copies)) {
    return broken(fmt::format("sequence {}: no blocks to copy into", sequence.id));
  }
  for (const auto& copy : copies) {
    ++counts_.copied;
    const auto source = kv_.begin() + copy.source * groups_.block_size;
    std::copy(source, source + groups_.block_size, kv_.begin() + copy.target * groups_.block_size);
  }
  if (!sequence.blocks.try_grow(sequence.computed + chunk.tokens)) {
    return broken(fmt::format("sequence {}: no blocks for its chunk", sequence.id));
  }
  const int32_t taken = before - pool_->num_available();
  if (taken > chunk.new_blocks) return broken(fmt::format("{} blocks taken, {} planned", taken, chunk.new_blocks));
  return {};
}

void World::compute(Sequence& sequence, int32_t position, int32_t token) {
  uint64_t value = FakeModel::embed(token, requests_[sequence.request].salt);
  for (int32_t layer = 0; layer < groups_.count(); ++layer) {
    value = model_.value(layer, value, position, [&](int32_t earlier) { return slot(sequence, layer, earlier); });
    slot(sequence, layer, position) = value;
  }
}

void World::run_chunk(Sequence& sequence, int32_t tokens) {
  for (int32_t end = sequence.computed + tokens; sequence.computed < end; ++sequence.computed) {
    compute(sequence, sequence.computed, sequence.tokens[static_cast<size_t>(sequence.computed)]);
  }
  sequence.last_value = last_value(sequence, sequence.computed - 1);
  sequence.blocks.publish(sequence.tokens, sequence.computed);
  leave_window(sequence);
}

// All guesses are computed at once, as a model does it; then one token after the other is drawn until a guess was
// wrong.
void World::run_draft(Sequence& sequence) {
  const auto drafted = static_cast<int32_t>(sequence.draft.size());
  compute(sequence, sequence.computed, sequence.tokens.back());
  for (int32_t i = 0; i < drafted; ++i) {
    compute(sequence, sequence.computed + 1 + i, sequence.draft[static_cast<size_t>(i)]);
  }
  counts_.guessed += drafted;
  for (int32_t i = 0; i <= drafted; ++i) {
    const uint64_t value = last_value(sequence, sequence.computed);
    sequence.blocks.publish(sequence.tokens, ++sequence.computed);
    sequence.tokens.push_back(FakeModel::next_token(value, sequence.stream));
    if (i == drafted || sequence.tokens.back() != sequence.draft[static_cast<size_t>(i)]) break;
    ++counts_.guessed_right;
  }
  leave_window(sequence);
}

void World::leave_window(Sequence& sequence) {
  const int32_t before = pool_->num_available();
  sequence.blocks.free_behind_windows(sequence.computed);
  counts_.window_freed += pool_->num_available() - before;
}

void World::emit(Sequence& sequence, std::vector<SequencePtr>& born) {
  const uint64_t value = sequence.last_value;
  for (; sequence.forks_wanted > 0; --sequence.forks_wanted) {
    born.push_back(fork_of(sequence, static_cast<uint64_t>(sequence.forks_wanted)));
    born.back()->tokens.push_back(FakeModel::next_token(value, born.back()->stream));
  }
  sequence.tokens.push_back(FakeModel::next_token(value, sequence.stream));
}

Status World::finish() {
  for (const SequencePtr& sequence : running_) {
    if (sequence->tokens.size() < sequence->length) continue;
    if (sequence->tokens != solo_run(*sequence))
      return broken(fmt::format("sequence {} differs from its solo run", sequence->id));
    ++counts_.finished;
  }
  std::erase_if(running_, [](const SequencePtr& sequence) { return sequence->tokens.size() >= sequence->length; });
  return {};
}

Status World::check_blocks() const {
  pool_->check_identity();
  std::vector<int32_t> references(static_cast<size_t>(pool_->num_blocks()));
  for (const SequencePtr& sequence : running_) {
    for (int32_t group = 0; group < groups_.count(); ++group) {
      for (BlockId block : sequence->blocks.blocks(group)) {
        if (block != kNoBlock) ++references[static_cast<size_t>(block)];
      }
    }
    QUERN_TRY(check_windows(*sequence));
  }
  for (const SequencePtr& sequence : waiting_) {
    if (sequence->blocks.length() > 0) return broken(fmt::format("sequence {} waits with blocks", sequence->id));
  }
  for (BlockId block = 0; block < pool_->num_blocks(); ++block) {
    const int32_t held = references[static_cast<size_t>(block)];
    if (held != pool_->references(block)) {
      return broken(fmt::format("block {}: {} references, in {} tables", block, pool_->references(block), held));
    }
  }
  return {};
}

// Each group has the blocks of what is still seen, and none of what is not.
Status World::check_windows(const Sequence& sequence) const {
  for (int32_t group = 0; group < groups_.count(); ++group) {
    const int32_t window = groups_.windows[static_cast<size_t>(group)];
    const int32_t first = FakeModel::first_attended(window, sequence.computed) / groups_.block_size;
    for (int32_t i = 0; i < sequence.blocks.length(); ++i) {
      const bool is_there = sequence.blocks.blocks(group)[static_cast<size_t>(i)] != kNoBlock;
      if (is_there != (i >= first)) {
        return broken(fmt::format("sequence {}: block {} of group {} is {}", sequence.id, i, group,
                                  is_there ? "held behind the window" : "missing"));
      }
    }
  }
  return {};
}

}  // namespace quern::sim
