// How many tokens to guess next for one sequence, from how the guesses before went and what they cost. Guessing too
// much or too little costs time, never correctness. Not thread-safe.
#pragma once

#include <cstdint>

namespace quern {

class DraftPolicy {
 public:
  explicit DraftPolicy(int32_t length_max) : length_max_(length_max), length_(length_max < 4 ? length_max : 4) {}

  // Guesses to make now; 0 while they do not pay. Call once per step.
  int32_t next_length();
  // token_cost: what a guessed token adds to a step, in units of what the step costs this sequence without it.
  void record(int32_t drafted, int32_t accepted, double token_cost);

 private:
  int32_t length_max_;
  int32_t length_;
  double accepted_ = 1;  // per round, recent ones count more
  double cost_ = 0;      // the same
  int32_t pause_ = 0;    // rounds still to sit out
  int32_t next_pause_ = 4;
};

}  // namespace quern
