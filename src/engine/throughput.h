// How fast a model runs, measured through the engine's own step: prompts, and streams that decode side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core.h"
#include "engine/runner.h"

namespace quern {

// n_gen 0: the time from n_prompt known tokens of each stream to the token after them. Else: the time in which each
// stream, started from one token, generates n_gen more; n_prompt is 0.
struct ThroughputCase {
  int32_t n_prompt = 0;
  int32_t n_gen = 0;
  int32_t batch = 1;  // streams
};

struct ThroughputSample {
  int64_t tokens = 0;  // of all streams
  int64_t steps = 0;
  double seconds = 0;
  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

struct ThroughputResult {
  ThroughputCase of;
  double mean_tokens_per_second = 0;
  double stddev_tokens_per_second = 0;  // of the sample; 0 when there is one
  double gbytes_per_second = 0;         // 1e9 bytes of weights read; 0 when the model does not know its cost
  double gmacs_per_second = 0;          // 1e9 multiply-adds in matrix products
};
ThroughputResult summarize(const ThroughputCase& of, const std::vector<ThroughputSample>& samples,
                           const DecodeCost& cost);

// Runs cases one after the other. Streams are greedy, ignore end tokens and share no prefix. Not thread-safe.
class ThroughputMeter {
 public:
  // Allocates the runner's KV storage for the largest of `cases`. Errors: kInvalidArgument naming the option when a
  // case does not fit the model's context, the step's token budget or its logits rows.
  static Result<ThroughputMeter> create(Runner& runner, std::vector<ThroughputCase> cases);

  const std::vector<ThroughputCase>& cases() const { return cases_; }
  // The runner's profile, if it has one, is on while the time counts.
  Result<ThroughputSample> run(const ThroughputCase& of);

 private:
  using Requests = std::vector<std::shared_ptr<const ValidRequest>>;

  ThroughputMeter(Runner& runner, std::vector<ThroughputCase> cases, std::unique_ptr<EngineCore> core)
      : runner_(&runner), cases_(std::move(cases)), core_(std::move(core)) {}
  Result<Requests> submit(const ThroughputCase& of);

  Runner* runner_;
  std::vector<ThroughputCase> cases_;
  std::unique_ptr<EngineCore> core_;
  int64_t next_request_ = 0;
};

}  // namespace quern
