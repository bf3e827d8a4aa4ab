#include "sample/softmax.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

// The loops are plain C++, built for several instruction sets. Operations go element by element and sums have eight
// lanes whatever the registers hold, so all builds give the same bits.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sample/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kGroup = SoftmaxWeights::kGroup;

// exp(x) for x <= 0: x = n ln 2 + r with |r| <= ln 2 / 2, Taylor polynomial of exp(r), times 2^n. At -88 and below n is
// -127, whose exponent bits are 0: the result is exactly 0. The bound is taken on the bits of |x|, where a NaN lies
// above every number: a floating comparison would keep compilers from making vector code of the loop around it.
HWY_INLINE float exp_nonpositive(float x) {
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
HWY_INLINE double sum_in_lanes(const float (&values)[kCount]) {
  static_assert(kCount % 8 == 0);
  double lanes[8] = {};
  for (size_t i = 0; i < kCount; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(values[i + lane]);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

float max_of(const float* logits, size_t count) {
  constexpr size_t kLanes = 32;
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < count; ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  for (size_t lane = 1; lane < kLanes; ++lane) lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
  return lanes[0];
}

// Weights of one group and their sum. The buffer of fixed size, which nobody else sees, makes the loops vector code.
double weigh_group(const float* logits, size_t count, float max, float scale, float* weights) {
  float group[kGroup];
  std::copy_n(logits, count, group);
  std::fill(group + count, group + kGroup, -std::numeric_limits<float>::infinity());
  for (float& weight : group) weight = exp_nonpositive((weight - max) * scale);
  std::copy_n(group, count, weights);
  return sum_in_lanes(group);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern {

HWY_EXPORT(max_of);
HWY_EXPORT(weigh_group);

float max_logit(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(max_of)(logits.data(), logits.size());
}

Peak peak_of(std::span<const float> logits) {
  // The maximum of a piece is vector code; only the piece that has the largest is searched for the index.
  constexpr size_t kPiece = 4096;
  Peak peak{-std::numeric_limits<float>::infinity(), 0};
  size_t best = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kPiece) {
    const float max = max_logit(logits.subspan(begin, std::min(kPiece, logits.size() - begin)));
    if (max > peak.value) {
      peak.value = max;
      best = begin;
    }
  }
  const auto found = std::find(logits.begin() + static_cast<ptrdiff_t>(best), logits.end(), peak.value);
  if (found != logits.end()) peak.index = static_cast<int32_t>(found - logits.begin());
  return peak;
}

void SoftmaxWeights::compute(std::span<const float> logits, float max, float scale) {
  weights_.resize(logits.size());
  group_sums_.resize((logits.size() + kGroup - 1) / kGroup);
  total_ = 0;
  for (size_t group = 0; group < group_sums_.size(); ++group) {
    const size_t begin = group * kGroup;
    const size_t count = std::min(kGroup, logits.size() - begin);
    group_sums_[group] =
        HWY_DYNAMIC_DISPATCH(weigh_group)(logits.data() + begin, count, max, scale, weights_.data() + begin);
    total_ += group_sums_[group];
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
#endif  // HWY_ONCE
