// How many tokens of prompts may ride in a step with running streams, so that these keep their pace: learnt from how
// long steps took. Changes when tokens are computed, never which. One owner thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quern {

// A mean of seconds lately: the newest measurement has a quarter of the weight. 0: none yet.
inline void blend(double& mean, double seconds) {
  mean = mean == 0 ? seconds : mean + 0.25 * (seconds - mean);
}

// What a step computed: a token of each sequence that decodes, guesses behind these, and tokens of prompts.
struct StepTokens {
  int32_t decodes = 0;
  int32_t guesses = 0;
  int32_t prompts = 0;

  int32_t all() const { return decodes + guesses + prompts; }
};

class StepPace {
 public:
  // ratio: how much longer than the steps of the streams alone a step that also computes prompts may take; 0: any.
  explicit StepPace(double ratio) : ratio_(ratio) {}

  void record(const StepTokens& tokens, double seconds);

  // Tokens of prompts for a step with so many decodes and guesses; 0: no limit. The pace is what these streams had
  // without prompts, guesses included (a step with guesses takes longer and brings more), and what they will have when
  // the `newcomers`, whose prompts are not computed yet, decode as well; where there are fewer than four streams to a
  // newcomer, they wait longer in proportion: a crowd that comes at once does not trickle in.
  int32_t prefill_tokens_max(int32_t decodes, int32_t newcomers, int32_t guesses = 0) const;

  // Of one step that decodes so many sequences, and of one more token in a larger step; 0: not measured yet.
  double decode_seconds(int32_t decodes) const;
  double token_seconds() const { return token_seconds_; }
  // What one guess for one of so many decoding sequences adds, in units of what a step costs each of them.
  double guess_cost(int32_t decodes) const;

 private:
  // Steps without prompts of about one size.
  struct Size {
    double tokens = 0;   // means lately
    double seconds = 0;  // 0: none yet
  };
  using Sizes = std::array<Size, 16>;        // by size_class()
  static size_t size_class(int32_t tokens);  // 1, 2, 3–4, 5–8 …
  static double nearest_seconds(const Sizes& sizes, int32_t tokens);

  double ratio_;
  double token_seconds_ = 0;
  Sizes by_tokens_{};
  Sizes by_decodes_{};  // whatever was guessed besides
};

}  // namespace quern
