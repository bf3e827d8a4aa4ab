// The two passes over a whole vocabulary that sampling makes: the largest logit, and exp with its sum. Elementwise
// float32 and float64 sums of a fixed order: the result does not depend on the width of vector registers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

// NaN is passed over. -inf when nothing else is there.
float max_logit(std::span<const float> logits);

// The largest logit and the lowest index that has it. NaN is passed over; {-inf, 0} when nothing else is there.
struct Peak {
  float value;
  int32_t index;
};
Peak peak_of(std::span<const float> logits);

// exp((logit - max) * scale), with partial sums so that a draw need not walk the vocabulary.
class SoftmaxWeights {
 public:
  static constexpr size_t kGroup = 256;  // logits per partial sum

  // max: max_logit(logits), finite; scale > 0. NaN and -inf get weight 0, the largest exactly 1. Relative error < 3e-7.
  void compute(std::span<const float> logits, float max, float scale);

  std::span<const float> weights() const { return weights_; }  // [vocab]
  double total() const { return total_; }                      // >= 1
  // The index at which the running sum first exceeds uniform * total, uniform in [0, 1). Never one of weight 0.
  int32_t draw(double uniform) const;

 private:
  std::vector<float> weights_;
  std::vector<double> group_sums_;
  double total_ = 0;
};

}  // namespace quern
