// One history: requests arrive, are planned, run on the fake model, forked, cancelled and preempted until all have
// ended. Everything, the settings too, follows from the seed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fake_model.h"
#include "kv/block_pool.h"
#include "kv/grouped_blocks.h"
#include "quern/status.h"
#include "sched/planner.h"

namespace quern::sim {

struct Counts {
  int64_t steps = 0, tokens = 0, finished = 0, cancelled = 0, preempted = 0, forked = 0, copied = 0, hit_tokens = 0,
          window_freed = 0, mixed_hit_tokens = 0, guessed = 0, guessed_right = 0;
  void add(const Counts& other);
};

class World {
 public:
  World(uint64_t seed, bool trace);
  // Steps to the end. An error tells the step and the invariant that broke.
  Status run();
  const Counts& counts() const { return counts_; }

 private:
  struct Request {
    int64_t arrival_step = 0;
    int64_t cancel_step = -1;  // -1: never
    std::vector<int32_t> prompt;
    size_t length = 0;  // of prompt and answer
    int32_t n = 1;
    int32_t priority = 0;
    uint64_t salt = 0;
  };
  struct Sequence {
    int64_t id;
    size_t request;
    int64_t arrival;
    uint64_t stream;
    std::vector<int32_t> given;   // the answer is what a solo run makes of these
    std::vector<int32_t> tokens;  // known so far
    size_t length;                // at which it ends
    int32_t computed = 0;         // waiting: what the prefix hit of the last plan promises
    int32_t forks_wanted = 0;     // once the prompt is computed
    uint64_t last_value = 0;      // of the last computed position: its block may be behind a window already
    std::vector<int32_t> draft;   // guesses behind `tokens`, for the coming step
    std::vector<int32_t> alone;   // the whole text as a solo run makes it, once it was needed
    GroupedBlocks blocks;
  };
  using SequencePtr = std::unique_ptr<Sequence>;

  int32_t pick(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  void make_settings();
  void make_requests();

  void arrive();
  void cancel();
  void fork_somewhere();
  SequencePtr fork_of(const Sequence& parent, uint64_t stream);
  void add_waiting(SequencePtr sequence);

  Plan plan();
  Status take_step(const Plan& plan);
  Status check_plan(const Plan& plan) const;
  Status apply(const Plan& plan);
  void preempt(const Plan& plan);
  Status admit(const Plan& plan);
  Status take_blocks(Sequence& sequence, const PlannedChunk& chunk);
  void guess(Sequence& sequence);
  const std::vector<int32_t>& solo_run(Sequence& sequence) const;
  uint64_t& slot(Sequence& sequence, int32_t group, int32_t position) {
    return kv_[static_cast<size_t>(sequence.blocks.slot(group, position))];
  }
  // Of the last layer: what the next token follows from.
  uint64_t last_value(Sequence& sequence, int32_t position) { return slot(sequence, groups_.count() - 1, position); }
  void compute(Sequence& sequence, int32_t position, int32_t token);
  void run_chunk(Sequence& sequence, int32_t tokens);
  void run_draft(Sequence& sequence);
  void leave_window(Sequence& sequence);
  void emit(Sequence& sequence, std::vector<SequencePtr>& born);
  Status finish();
  Status check_blocks() const;
  Status check_windows(const Sequence& sequence) const;

  Sequence* find_running(int64_t id) const;
  PlannerSequence describe_running(const Sequence& sequence) const;
  bool goes_before(const Sequence& a, const Sequence& b) const;

  std::mt19937_64 random_;
  bool trace_;
  // Settings.
  FakeModel model_;
  PlannerOptions options_;
  BlockGroups groups_;  // one layer each
  bool by_priority_ = false;
  int32_t fork_percent_ = 0;
  int32_t draft_max_ = 0;      // guesses per step; 0: no speculation
  int32_t right_percent_ = 0;  // of guesses
  std::vector<Request> requests_;
  // State. The pool outlives the tables that stand on it.
  std::unique_ptr<BlockPool> pool_;
  std::vector<uint64_t> kv_;  // [num_blocks * block_size]
  std::vector<SequencePtr> running_;
  std::deque<SequencePtr> waiting_;
  size_t arrived_ = 0;
  int64_t next_id_ = 0;
  int64_t step_ = 0;
  Counts counts_;
};

}  // namespace quern::sim
