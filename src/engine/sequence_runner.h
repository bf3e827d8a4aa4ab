// A fixed number of token sequences run side by side without a scheduler: each has its own blocks from the start and
// grows by append(). For commands that measure or inspect a model; answering requests is the engine's. Not thread-safe.
//
//   QUERN_ASSIGN(auto sequences, SequenceRunner::create(runner, {.num_sequences = 2, .tokens_max = 512}));
//   QUERN_ASSIGN(auto logits, sequences.append({{.sequence = 0, .ids = ids, .rows = LogitsRows::kAll}}));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/runner.h"

namespace quern {

enum class LogitsRows : uint8_t { kNone, kLast, kAll };

class SequenceRunner {
 public:
  struct Options {
    int32_t num_sequences = 1;
    int32_t tokens_max = 0;  // per sequence
  };
  // Allocates the runner's KV storage for all sequences: num_sequences * ceil(tokens_max / 16) blocks. `runner` must
  // outlive it.
  static Result<SequenceRunner> create(Runner& runner, const Options& options);

  struct Append {
    int32_t sequence = 0;  // each at most once per call, ascending
    std::span<const int32_t> ids;
    LogitsRows rows = LogitsRows::kNone;
    int32_t prompt_tokens = 0;  // BatchSequence::prompt_tokens; 0: the length after this call
  };
  // One forward over all parts. kInvalidArgument: an id outside the vocabulary, a sequence over tokens_max, more ids
  // than max_num_batched_tokens or more logits rows than max_logits_rows. The result is [rows, vocab_size] in order of
  // the parts, valid until the next call.
  Result<std::span<float>> append(std::span<const Append> parts, const HiddenTap* tap = nullptr);

  // Appends `ids` of any length to one sequence in chunks of max_num_batched_tokens. `on_chunk` gets the position of
  // the chunk's first token in the sequence and the logits of its rows (empty for kNone; for kLast only the last chunk
  // has one row). With kAll a chunk is at most max_logits_rows.
  using OnChunk = std::function<Status(int32_t position, std::span<float> logits)>;
  Status append_chunked(int32_t sequence, std::span<const int32_t> ids, LogitsRows rows, const OnChunk& on_chunk,
                        const HiddenTap* tap = nullptr);

  int32_t length(int32_t sequence) const { return lengths_[sequence]; }
  void truncate(int32_t sequence, int32_t length);  // forgets what follows; length <= the present one

 private:
  SequenceRunner(Runner& runner, const Options& options);

  Runner* runner_;
  Options options_;
  std::vector<std::vector<int32_t>> blocks_;  // [sequence][tokens_max / 16]
  std::vector<int32_t> lengths_;
  std::vector<int32_t> ids_, slots_, logits_rows_;
  std::vector<BatchSequence> spans_;
};

}  // namespace quern
