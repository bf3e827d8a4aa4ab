// Beam search, as vLLM has it (`use_beam_search`): of the continuations of all beams by their likeliest tokens, the
// likeliest `n` go on. Each step asks the engine for one token per beam; the prefix cache makes that one step of
// decoding.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "quern/engine.h"

namespace quern::openai {

struct BeamOptions {
  int32_t width = 1;
  double length_penalty = 1.0;  // a beam's score is its log probability / length^length_penalty
  int32_t max_tokens = 0;
  std::set<int32_t> end_ids;
};

class BeamSearch {
 public:
  struct Beam {
    std::vector<int32_t> ids;  // prompt and output
    double logprob = 0;
    bool ended = false;  // its last id is an end token
  };

  BeamSearch(std::vector<int32_t> prompt, const BeamOptions& options);

  bool done() const { return steps_ == options_.max_tokens || beams_.empty(); }
  // One request per living beam, for one token each; `base` says everything else.
  std::vector<Request> requests(const Request& base) const;
  // The likeliest next tokens of each beam, in the order of requests().
  void take(const std::vector<std::vector<std::pair<int32_t, float>>>& next);
  // The best `width`, best first.
  std::vector<Beam> best() const;

 private:
  double score(const Beam& beam) const;

  BeamOptions options_;
  std::vector<Beam> beams_;
  std::vector<Beam> completed_;
  int32_t steps_ = 0;
};

}  // namespace quern::openai
