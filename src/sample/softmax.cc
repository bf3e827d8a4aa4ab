#include "sample/softmax.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace quern {
namespace {

// exp(x) for x <= 0: x = n ln 2 + r with |r| <= ln 2 / 2, Taylor polynomial of exp(r), times 2^n. At -88 and below n is
// -127, whose exponent bits are 0: the result is exactly 0. The bound is taken on the bits of |x|, where a NaN lies
// above every number: a floating comparison would keep compilers from making vector code of the loop around it.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -88.0f;
  constexpr int32_t kMagnitudeMask = 0x7fffffff;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kRound = 12582912.0f;       // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375f;    // 355 / 512: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;  // ln 2 - kLn2High
  const int32_t magnitude = std::min(std::bit_cast<int32_t>(x) & kMagnitudeMask, std::bit_cast<int32_t>(-kLowest));
  const float bounded = -std::bit_cast<float>(magnitude);
  const float n = (bounded * kLog2E + kRound) - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t exponent = (static_cast<int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

// Sum by eight interleaved running sums, added up pairwise.
template <size_t kCount>
double sum_in_lanes(const float (&values)[kCount]) {
  static_assert(kCount % 8 == 0);
  double lanes[8] = {};
  for (size_t i = 0; i < kCount; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(values[i + lane]);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace

float max_logit(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::ranges::fill(lanes, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < logits.size(); ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  return *std::ranges::max_element(lanes);
}

int32_t first_index_of(std::span<const float> logits, float max) {
  const auto found = std::ranges::find(logits, max);
  QUERN_CHECK(found != logits.end());
  return static_cast<int32_t>(found - logits.begin());
}

void SoftmaxWeights::compute(std::span<const float> logits, float max, float scale) {
  weights_.resize(logits.size());
  group_sums_.resize((logits.size() + kGroup - 1) / kGroup);
  total_ = 0;
  // Whole groups through a buffer of fixed size: a loop of known length over memory nobody else sees becomes vector
  // code.
  float group_weights[kGroup];
  for (size_t group = 0; group < group_sums_.size(); ++group) {
    const size_t begin = group * kGroup;
    const size_t count = std::min(kGroup, logits.size() - begin);
    std::copy_n(logits.data() + begin, count, group_weights);
    std::fill(group_weights + count, group_weights + kGroup, -std::numeric_limits<float>::infinity());
    for (float& weight : group_weights) weight = exp_nonpositive((weight - max) * scale);
    group_sums_[group] = sum_in_lanes(group_weights);
    total_ += group_sums_[group];
    std::copy_n(group_weights, count, weights_.data() + begin);
  }
}

int32_t SoftmaxWeights::draw(double uniform) const {
  const double target = uniform * total_;
  double before = 0;
  size_t group = 0;
  size_t last_with_mass = 0;
  for (; group < group_sums_.size(); ++group) {
    if (group_sums_[group] > 0) last_with_mass = group;
    if (before + group_sums_[group] > target) break;
    before += group_sums_[group];
  }
  // Rounding may leave the target a hair above the last sum: then the last index with any weight is meant.
  if (group == group_sums_.size()) group = last_with_mass;
  const size_t end = std::min((group + 1) * kGroup, weights_.size());
  size_t chosen = weights_.size();
  for (size_t i = group * kGroup; i < end; ++i) {
    if (weights_[i] == 0) continue;
    chosen = i;
    before += static_cast<double>(weights_[i]);
    if (before > target) break;
  }
  QUERN_CHECK(chosen < weights_.size());
  return static_cast<int32_t>(chosen);
}

}  // namespace quern
