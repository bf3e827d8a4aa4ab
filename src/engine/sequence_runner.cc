#include "engine/sequence_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace quern {

SequenceRunner::SequenceRunner(Runner& runner, const Options& options)
    : runner_(&runner), options_(options), blocks_(options.num_sequences), lengths_(options.num_sequences, 0) {
  const int32_t per_sequence = (options.tokens_max + kKvBlockSize - 1) / kKvBlockSize;
  int32_t next = 0;
  for (auto& blocks : blocks_) {
    blocks.resize(per_sequence);
    for (int32_t& block : blocks) block = next++;
  }
}

Result<SequenceRunner> SequenceRunner::create(Runner& runner, const Options& options) {
  QUERN_CHECK(options.num_sequences > 0);
  if (options.tokens_max <= 0 || options.tokens_max > runner.config().context_length) {
    return invalid_argument(fmt::format("a sequence of {} tokens does not fit the model's context of {}",
                                        options.tokens_max, runner.config().context_length));
  }
  SequenceRunner result(runner, options);
  const size_t num_blocks = result.blocks_.size() * result.blocks_[0].size();
  QUERN_TRY(runner.allocate_kv(static_cast<int32_t>(num_blocks), runner.one_kv_group()));
  return result;
}

Result<std::span<float>> SequenceRunner::append(std::span<const Append> parts, const HiddenTap* tap) {
  ids_.clear(), slots_.clear(), logits_rows_.clear(), spans_.clear();
  const int32_t vocab_size = runner_->config().vocab_size;
  int32_t previous = -1;
  for (const Append& part : parts) {
    QUERN_CHECK(part.sequence > previous && part.sequence < options_.num_sequences);
    previous = part.sequence;
    if (part.ids.empty()) continue;
    const int32_t begin = lengths_[part.sequence];
    const int32_t count = static_cast<int32_t>(part.ids.size());
    if (count > options_.tokens_max - begin) {
      return invalid_argument(fmt::format("{} tokens are more than the {} a sequence may have", begin + int64_t{count},
                                          options_.tokens_max));
    }
    const auto& blocks = blocks_[part.sequence];
    spans_.push_back({.span = {.query_begin = static_cast<int32_t>(ids_.size()),
                               .query_count = count,
                               .context_begin = begin,
                               .blocks = std::span(blocks).first((begin + count + kKvBlockSize - 1) / kKvBlockSize)},
                      .prompt_tokens = part.prompt_tokens > 0 ? part.prompt_tokens : begin + count});
    for (int32_t i = 0; i < count; ++i) {
      const int32_t id = part.ids[i], position = begin + i;
      if (id < 0 || id >= vocab_size) {
        return invalid_argument(fmt::format("token id {} is outside the vocabulary of {}", id, vocab_size));
      }
      if (part.rows == LogitsRows::kAll || (part.rows == LogitsRows::kLast && i + 1 == count)) {
        logits_rows_.push_back(static_cast<int32_t>(ids_.size()));
      }
      ids_.push_back(id);
      slots_.push_back(blocks[position / kKvBlockSize] * kKvBlockSize + position % kKvBlockSize);
    }
  }
  if (ids_.empty()) return std::span<float>{};
  const RunnerOptions& limits = runner_->options();
  if (ids_.size() > static_cast<size_t>(limits.max_num_batched_tokens) ||
      logits_rows_.size() > static_cast<size_t>(limits.max_logits_rows)) {
    return invalid_argument(fmt::format("a batch of {} tokens and {} logits rows is over the limits {} and {}",
                                        ids_.size(), logits_rows_.size(), limits.max_num_batched_tokens,
                                        limits.max_logits_rows));
  }
  QUERN_ASSIGN(auto logits,
               runner_->run({.ids = ids_, .slots = slots_, .sequences = spans_, .logits_rows = logits_rows_}, tap));
  for (const Append& part : parts) lengths_[part.sequence] += static_cast<int32_t>(part.ids.size());
  return logits;
}

Status SequenceRunner::append_chunked(int32_t sequence, std::span<const int32_t> ids, LogitsRows rows,
                                      const OnChunk& on_chunk, const HiddenTap* tap) {
  const RunnerOptions& limits = runner_->options();
  const size_t chunk_max = rows == LogitsRows::kAll ? std::min(limits.max_num_batched_tokens, limits.max_logits_rows)
                                                    : limits.max_num_batched_tokens;
  const int32_t prompt_tokens = lengths_[sequence] + static_cast<int32_t>(ids.size());
  while (!ids.empty()) {
    const auto chunk = ids.first(std::min(ids.size(), chunk_max));
    ids = ids.subspan(chunk.size());
    const bool last = ids.empty();
    const LogitsRows chunk_rows = rows == LogitsRows::kLast && !last ? LogitsRows::kNone : rows;
    const int32_t position = lengths_[sequence];
    const Append part{.sequence = sequence, .ids = chunk, .rows = chunk_rows, .prompt_tokens = prompt_tokens};
    QUERN_ASSIGN(auto logits, append(std::span(&part, 1), tap));
    QUERN_TRY(on_chunk(position, logits));
  }
  return {};
}

void SequenceRunner::truncate(int32_t sequence, int32_t length) {
  QUERN_CHECK(length >= 0 && length <= lengths_[sequence]);
  lengths_[sequence] = length;
}

}  // namespace quern
