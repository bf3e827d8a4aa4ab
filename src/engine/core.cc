#include "engine/core.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/status.h"
#include "engine/prefix_salt.h"

namespace quern {

EngineCore::EngineCore(Runner& runner, const Tokenizer* tokenizer, const CoreOptions& options,
                       std::unique_ptr<BlockPool> pool)
    : runner_(runner),
      tokenizer_(tokenizer),
      options_(options),
      pool_(std::move(pool)),
      groups_{.block_size = kKvBlockSize, .windows = runner.kv_layout().windows},
      pace_(options.decode_pace) {
  const size_t tokens_max = static_cast<size_t>(options.planner.max_num_batched_tokens);
  const size_t sequences_max = static_cast<size_t>(options.planner.max_num_seqs);
  running_.reserve(sequences_max);
  running_view_.reserve(sequences_max);
  waiting_view_.reserve(sequences_max);
  chunks_.reserve(sequences_max);
  spans_.reserve(sequences_max);
  tables_.reserve(sequences_max * groups_.windows.size());
  logits_rows_.reserve(sequences_max);
  ids_.reserve(tokens_max);
  slots_.reserve(tokens_max * groups_.windows.size());
}

Result<std::unique_ptr<EngineCore>> EngineCore::create(Runner& runner, const Tokenizer* tokenizer,
                                                       const CoreOptions& options) {
  QUERN_CHECK(runner.num_kv_blocks() > 0);
  QUERN_CHECK(options.planner.max_num_batched_tokens <= runner.options().max_num_batched_tokens);
  QUERN_ASSIGN(auto pool, BlockPool::create(runner.num_kv_blocks(), options.prefix_root));
  std::unique_ptr<EngineCore> core(new EngineCore(runner, tokenizer, options, std::move(pool)));
  core->attach_disk();
  return core;
}

uint64_t EngineCore::salt_of(const ValidRequest& valid) const {
  const auto& request = valid.request;
  const uint64_t salt = prefix_salt(runner_.config(), static_cast<int32_t>(request.prompt_ids.size()));
  if (request.cache_salt.empty() && valid.adapter.adapter == nullptr) return salt;
  std::string more = request.cache_salt;
  if (valid.adapter.adapter != nullptr) {
    more +=
        fmt::format("\n{:016x} {:08x}", valid.adapter.adapter->digest(), std::bit_cast<uint32_t>(valid.adapter.scale));
  }
  return mix_salt(pool_->root(), salt, more);
}

std::unique_ptr<Sequence> EngineCore::make_sequence(int64_t request_id, int64_t arrival, int32_t index,
                                                    std::shared_ptr<const ValidRequest> valid) {
  SamplingParams sampling = valid->sampling;
  sampling.seed += static_cast<uint64_t>(index);
  const auto& prompt = valid->request.prompt_ids;
  auto sequence = std::make_unique<Sequence>(Sequence{
      .id = next_id_++,
      .request_id = request_id,
      .arrival = arrival,
      .index = index,
      .prompt_tokens = static_cast<int32_t>(prompt.size()),
      .blocks = GroupedBlocks(*pool_, groups_.windows, salt_of(*valid)),
      .sampler = make_sampler(sampling, runner_.config().vocab_size),
      .text = AnswerText(tokenizer_, valid->request.skip_special_tokens, valid->stops),
  });
  sequence->tokens.reserve(prompt.size() + static_cast<size_t>(valid->max_output_tokens));
  sequence->tokens.assign(prompt.begin(), prompt.end());
  if (valid->speculation != Speculation::kOff) {
    sequence->drafter =
        std::make_unique<SequenceDraft>(valid->speculation, valid->draft_length_max, valid->request.prediction_ids);
  }
  sequence->valid = std::move(valid);
  begin_constraints(*sequence);
  return sequence;
}

void EngineCore::submit(int64_t request_id, std::shared_ptr<const ValidRequest> valid) {
  auto sequence = make_sequence(request_id, next_arrival_++, 0, std::move(valid));
  sequence->forks_left = sequence->valid->request.n - 1;
  fair_.enter(sequence->valid->request.tenant);
  insert_waiting(std::move(sequence));
}

void EngineCore::cancel(int64_t request_id) {
  for (Sequences* list : {&running_, &waiting_}) {
    for (auto& sequence : *list) {
      if (sequence->request_id == request_id) finish_all(*sequence, FinishReason::kCancelled);
    }
  }
  remove_ended();
}

void EngineCore::cancel_all() {
  for (Sequences* list : {&running_, &waiting_}) {
    for (auto& sequence : *list) finish_all(*sequence, FinishReason::kCancelled);
  }
  remove_ended();
}

void EngineCore::remove_ended() {
  for (Sequences* list : {&running_, &waiting_}) {
    std::erase_if(*list, [](const auto& sequence) { return sequence->ended; });
  }
}

void EngineCore::step() {
  if (idle()) return;
  adopt(plan());
  if (chunks_.empty()) {
    // The planner promises that the first in line moves on; should it ever not, that one pays, and the engine lives.
    const Error error{ErrorCode::kInternal, "the request could not be scheduled"};
    finish_all(running_.empty() ? *waiting_.front() : *running_.front(), FinishReason::kError, &error);
    remove_ended();
    return;
  }
  build_batch();
  StepTokens tokens;
  for (const Chunk& chunk : chunks_) {
    const bool decodes = chunk.sequence->computed + 1 == chunk.sequence->target();
    tokens.decodes += decodes ? 1 : 0;
    (decodes ? tokens.guesses : tokens.prompts) += decodes ? chunk.tokens - 1 : chunk.tokens;
  }
  num_decodes_ = tokens.decodes;
  const auto start = EngineClock::now();
  auto logits = runner_.run({.ids = ids_, .slots = slots_, .sequences = spans_, .logits_rows = logits_rows_});
  if (logits) {
    apply(*logits);
  } else {
    for (const Chunk& chunk : chunks_) finish_all(*chunk.sequence, FinishReason::kError, &logits.error());
  }
  remove_ended();
  if (logits) pace_.record(tokens, std::chrono::duration<double>(EngineClock::now() - start).count());
}

void EngineCore::build_batch() {
  ids_.clear();
  spans_.clear();
  logits_rows_.clear();
  for (Chunk& chunk : chunks_) {
    const Sequence& sequence = *chunk.sequence;
    const int32_t begin = sequence.computed, end = begin + chunk.tokens, target = sequence.target();
    QUERN_CHECK(chunk.tokens > 0 && end <= target + static_cast<int32_t>(sequence.draft.size()));
    spans_.push_back({.span = {.query_begin = static_cast<int32_t>(ids_.size()),
                               .query_count = chunk.tokens,
                               .context_begin = begin,
                               .blocks = sequence.blocks.blocks(0)},
                      .prompt_tokens = sequence.prompt_tokens,
                      .adapter = sequence.valid->adapter.adapter.get(),
                      .adapter_scale = sequence.valid->adapter.scale});
    for (int32_t position = begin; position < end; ++position) {
      ids_.push_back(position < target ? sequence.tokens[position] : sequence.draft[position - target]);
    }
    chunk.rows = std::max(0, end - target + 1);
    if (sequence.scores_prompt() && begin < sequence.prompt_tokens) chunk.rows = chunk.tokens;
    for (int32_t row = chunk.rows; row > 0; --row) logits_rows_.push_back(static_cast<int32_t>(ids_.size()) - row);
  }
  place_batch();
}

// Block tables and slots of each group.
void EngineCore::place_batch() {
  slots_.clear();
  for (int32_t group = 0; group < groups_.count(); ++group) {
    for (const Chunk& chunk : chunks_) {
      const Sequence& sequence = *chunk.sequence;
      for (int32_t i = 0; i < chunk.tokens; ++i) slots_.push_back(sequence.blocks.slot(group, sequence.computed + i));
    }
  }
  tables_.clear();
  for (const Chunk& chunk : chunks_) {
    for (int32_t group = 0; group < groups_.count(); ++group) tables_.push_back(chunk.sequence->blocks.blocks(group));
  }
  const size_t num_groups = groups_.windows.size();
  for (size_t i = 0; i < spans_.size(); ++i) {
    spans_[i].tables = std::span(tables_).subspan(i * num_groups, num_groups);
  }
}

EngineStats EngineCore::stats() const {
  EngineStats stats = totals_;
  stats.running = static_cast<int32_t>(running_.size());
  stats.waiting = static_cast<int32_t>(waiting_.size());
  stats.kv_blocks_total = pool_->num_blocks();
  stats.kv_blocks_free = pool_->num_free();
  stats.kv_blocks_cached = pool_->num_cached();
  int64_t empty = 0;
  for (const auto& sequence : running_) {
    const int64_t room = int64_t{sequence->blocks.length()} * kKvBlockSize;
    empty += std::max<int64_t>(0, room - sequence->computed) * sequence->blocks.num_groups();
  }
  stats.kv_positions_live = std::max<int64_t>(0, int64_t{pool_->num_live()} * kKvBlockSize - empty);
  if (options_.disk != nullptr) stats.disk_blocks = options_.disk->num_used();
  return stats;
}

void EngineCore::check() const {
  pool_->check_identity();
  QUERN_CHECK(!idle() || pool_->num_live() == 0);
}

}  // namespace quern
