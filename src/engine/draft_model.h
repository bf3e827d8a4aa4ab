// A smaller model of the same vocabulary that guesses what the large one will say. It keeps keys and values of its own
// for the sequences it guesses for; when they do not fit, those that were not asked for longest go. One owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "quern/status.h"
#include "sample/sampler.h"

namespace quern {

class DraftModel {
 public:
  // Allocates the runner's KV storage: enough for `num_tokens`. kInvalidArgument when the vocabularies differ in size.
  static Result<std::unique_ptr<DraftModel>> create(std::unique_ptr<Runner> runner, int32_t vocab_size,
                                                    int64_t num_tokens);

  struct Ask {
    int64_t sequence = 0;
    std::span<const int32_t> tokens;
    int32_t prompt_tokens = 0;
    const SamplingParams* sampling = nullptr;  // guesses are drawn as the large model's tokens will be
  };
  // At most `count` guesses of what follows; fewer, or none, where memory or context end.
  void propose(const Ask& ask, int32_t count, std::vector<int32_t>& out);
  void forget(int64_t sequence);  // it has ended; unknown ones do not matter

  double token_seconds() const { return token_seconds_; }  // of one guess, lately

 private:
  struct State {
    SequenceBlocks blocks;
    std::vector<int32_t> stored;  // tokens whose keys and values are in the blocks
    std::unique_ptr<Sampler> sampler;
    uint64_t last_use = 0;
  };
  DraftModel(std::unique_ptr<Runner> runner, std::unique_ptr<BlockPool> pool)
      : runner_(std::move(runner)), pool_(std::move(pool)) {}

  State& state_of(const Ask& ask);
  bool make_room(State& state, int32_t tokens);
  // Computes tokens [stored, tokens.size()); the last one's logits. Empty: no room, or the device failed.
  std::span<float> extend(State& state, std::span<const int32_t> tokens, int32_t prompt_tokens);
  bool run(State& state, std::span<const int32_t> ids, bool wants_logits, int32_t prompt_tokens,
           std::span<float>& logits);

  std::unique_ptr<Runner> runner_;
  std::unique_ptr<BlockPool> pool_;  // before the tables that refer to it
  std::map<int64_t, State> states_;
  uint64_t uses_ = 0;
  double token_seconds_ = 0;
  std::vector<int32_t> known_, slots_;
};

}  // namespace quern
