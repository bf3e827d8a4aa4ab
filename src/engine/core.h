// The serving core: requests in, events out, one step at a time. A step is plan → run → apply; only apply changes
// sequences. No clock of its own but for the times it reports, no thread but the one that makes masks of
// grammars: driven by the engine's thread, or by a test. Thread rule: one owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/draft_model.h"
#include "engine/fair_share.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "engine/sequence.h"
#include "engine/step_pace.h"
#include "kv/block_pool.h"
#include "kv/disk_tier.h"
#include "sched/planner.h"
#include "text/tokenizer.h"

namespace quern {

struct CoreOptions {
  PlannerOptions planner;
  bool enable_prefix_caching = true;
  double decode_pace = 0;       // how much longer than without them a step of decodes may take for prompts; 0: any
  DraftModel* draft = nullptr;  // guesses for requests that want a model's, or none; must outlive the core
  DiskTier* disk = nullptr;     // second tier of the cache, or none; must outlive the core
  double disk_patience = 1;     // a block is read if that takes at most so many times what computing it takes
  PrefixKey prefix_root;        // a secret of the process, so that strangers cannot craft blocks that look like others'
};

class EngineCore {
 public:
  // `runner` has its KV storage; it and `tokenizer` (may be null: no text) must outlive the core.
  static Result<std::unique_ptr<EngineCore>> create(Runner& runner, const Tokenizer* tokenizer,
                                                    const CoreOptions& options);

  void submit(int64_t request_id, std::shared_ptr<const ValidRequest> valid);
  // Ends every answer of the request that still runs or waits, and gives its blocks back before it returns.
  void cancel(int64_t request_id);
  void cancel_all();

  bool idle() const { return running_.empty() && waiting_.empty(); }
  void step();

  // Writes blocks that only memory has to the disk tier, at most so many. true: there are more.
  bool save_some(int32_t blocks_max);

  EngineStats stats() const;
  int64_t requests_ended() const { return requests_ended_; }  // since the start, all answers of each
  // The pool's identity; that nothing is live when idle.
  void check() const;

 private:
  using Sequences = std::vector<std::unique_ptr<Sequence>>;

  EngineCore(Runner& runner, const Tokenizer* tokenizer, const CoreOptions& options, std::unique_ptr<BlockPool> pool);

  // core_plan.cc: what the planner sees, and making its plan true.
  Plan plan();
  bool computes_prompts() const;
  void propose_drafts();
  void propose_draft(Sequence& sequence, int32_t room);
  double draft_cost(const Sequence& sequence) const;  // of one guess, as DraftPolicy::record() wants it
  void count_spare_rows();
  int32_t chunk_max(const Sequence& sequence);
  void describe_running();
  void order_waiting(size_t count);  // of the list: by priority, then in turns of tenants, then by arrival
  void describe_waiting();
  int32_t wanted_blocks(const PlannerSequence& sequence) const;  // before it is admitted, or goes on to its end
  void adopt(const Plan& plan);  // preempts, admits, grows; afterwards chunks_ are the sequences that run
  void preempt(int64_t id);
  void admit(int64_t id);
  void insert_waiting(std::unique_ptr<Sequence> sequence);

  // core_disk.cc
  void attach_disk();
  void save_block(BlockId block, const PrefixKey& key, std::span<const int32_t> tokens);
  struct Restore {
    int32_t length = 0;        // of the prefix, in blocks, once all are read
    int32_t read_blocks = 0;   // that only the disk has
    int32_t saved_blocks = 0;  // of positions that then need not be computed
  };
  bool reading_pays(const Restore& plan) const;
  Restore plan_restore(Sequence& sequence, int32_t in_memory_blocks, int64_t room);
  void read_blocks(Sequence& sequence, const Restore& plan, std::vector<BlockId>& held);
  bool restore(Sequence& sequence, const GroupedBlocks::PrefixMatch& match, int64_t room);

  // core.cc
  std::unique_ptr<Sequence> make_sequence(int64_t request_id, int64_t arrival, int32_t index,
                                          std::shared_ptr<const ValidRequest> valid);
  uint64_t salt_of(const ValidRequest& valid) const;
  void build_batch();
  void place_batch();
  void begin_constraints(Sequence& sequence);

  // core_apply.cc: what the logits mean.
  struct Chunk {
    Sequence* sequence = nullptr;
    int32_t tokens = 0;
    int32_t rows = 0;  // of logits, for its last positions
  };
  void apply(std::span<float> logits);
  void apply_chunk(const Chunk& chunk, std::span<float> logits);
  void apply_draft(const Chunk& chunk, std::span<float> logits);
  void score_prompt(Sequence& sequence, int32_t begin, int32_t count, std::span<const float> logits);
  void advance(Sequence& sequence, int32_t tokens);  // their keys and values are there now
  void apply_row(Sequence& sequence, std::span<float> logits);
  // What may not come next gets the logit -inf; what came. true: the grammar allows nothing more.
  static bool is_constrained(const Sequence& sequence) { return sequence.grammar || sequence.thinking.forced(); }
  static Status constrain(Sequence& sequence, std::span<float> logits);
  static Result<bool> accept(Sequence& sequence, int32_t id);
  // Draws, appends and tells the reader. false: the answer has ended.
  bool take_token(Sequence& sequence, std::span<float> logits);
  void start_forks(Sequence& parent, std::span<const float> logits);
  void send_finish(const Sequence& sequence, FinishEvent event);
  void finish(Sequence& sequence, FinishReason reason, const Error* error = nullptr);
  void finish_all(Sequence& sequence, FinishReason reason, const Error* error = nullptr);  // with its forks
  void remove_ended();

  Runner& runner_;
  const Tokenizer* tokenizer_;
  CoreOptions options_;
  std::unique_ptr<BlockPool> pool_;                // before the sequences, whose blocks refer to it
  std::unique_ptr<GrammarWorker> grammar_worker_;  // before the sequences; made with the first grammar
  const BlockGroups groups_;                       // of the runner's storage
  Sequences running_;                              // in order of admission
  Sequences waiting_;                              // in order of service: priority, then arrival
  int64_t next_id_ = 0;
  int64_t next_arrival_ = 0;
  int64_t requests_ended_ = 0;
  FairShare fair_;
  StepPace pace_;
  AnswerCorpus corpus_;
  int32_t spare_rows_ = 0;        // of logits, beyond one for each running sequence
  bool rows_are_scarce_ = false;  // a step may have more tokens than rows
  int32_t num_decodes_ = 0;       // of the running step
  EngineStats totals_;            // the counters; gauges are read when asked for

  // Scratch of one step, kept for its capacity.
  std::vector<PlannerSequence> running_view_, waiting_view_;
  std::vector<Sequence*> service_order_;
  std::vector<FairShare::Waiting> waiting_tenants_;
  std::vector<size_t> fair_order_;
  std::vector<Chunk> chunks_;
  std::vector<int32_t> ids_, slots_, logits_rows_;
  std::vector<BatchSequence> spans_;
  std::vector<std::span<const int32_t>> tables_;  // [sequences, groups] of the batch
  std::vector<SequenceBlocks::BlockCopy> copies_;
  std::vector<float> row_copy_;
  std::vector<std::byte> disk_buffer_, restore_buffer_;  // one block each
  double disk_read_seconds_ = 0;                         // of one block
};

}  // namespace quern
