#include "sample/softmax.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <random>

#include "sample/sampler_testing.h"

namespace quern {
namespace {

using testing::kInf;
using testing::kNaN;

TEST(MaxLogit, AllLengthsAndPlaces) {
  for (size_t length : {1, 2, 15, 16, 17, 31, 33, 100}) {
    for (size_t place = 0; place < length; ++place) {
      std::vector<float> logits(length, -3.0f);
      logits[place] = -1.0f;
      EXPECT_EQ(max_logit(logits), -1.0f);
      EXPECT_EQ(peak_of(logits).index, static_cast<int32_t>(place));
    }
  }
  EXPECT_EQ(max_logit({}), -kInf);
}

TEST(MaxLogit, PassesOverNaN) {
  for (size_t length : {1, 16, 40}) {
    std::vector<float> logits(length, kNaN);
    EXPECT_EQ(max_logit(logits), -kInf);
    logits[length / 2] = 2.0f;
    EXPECT_EQ(max_logit(logits), 2.0f);
  }
}

TEST(SoftmaxWeights, MatchesTheLibraryExponential) {
  std::vector<float> logits;
  for (int i = 0; i <= 8600; ++i) logits.push_back(static_cast<float>(-i) * 0.01f);
  SoftmaxWeights softmax;
  softmax.compute(logits, 0.0f, 1.0f);
  EXPECT_EQ(softmax.weights()[0], 1.0f);
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = std::exp(static_cast<double>(logits[i]));
    EXPECT_NEAR(static_cast<double>(softmax.weights()[i]), expected, 3e-7 * expected) << logits[i];
    total += expected;
  }
  EXPECT_NEAR(softmax.total(), total, 3e-7 * total);
}

TEST(SoftmaxWeights, NothingForNaNMinusInfinityAndFarBelow) {
  const std::vector<float> logits{kNaN, 1.0f, -kInf, -200.0f, -std::numeric_limits<float>::max(), -kNaN};
  SoftmaxWeights softmax;
  softmax.compute(logits, 1.0f, 1.0f);
  EXPECT_EQ(std::vector<float>(softmax.weights().begin(), softmax.weights().end()),
            (std::vector<float>{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(softmax.total(), 1.0);
}

TEST(SoftmaxWeights, EveryInstructionSetGivesTheSameBits) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 5);
  std::vector<float> logits(5003);
  for (float& logit : logits) logit = normal(random);
  logits[17] = kNaN;
  const auto bits = [&](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(targets);
    SoftmaxWeights softmax;
    const float max = max_logit(logits);
    softmax.compute(logits, max, 0.7f);
    std::vector<double> all(softmax.weights().begin(), softmax.weights().end());
    all.push_back(softmax.total());
    all.push_back(static_cast<double>(max));
    return all;
  };
  const int64_t machine = hwy::SupportedTargets();
  const auto best = bits(machine);
  for (int64_t rest = machine | HWY_SCALAR; rest != 0; rest &= rest - 1) EXPECT_EQ(bits(rest & -rest), best) << rest;
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(SoftmaxWeights, DrawInvertsTheRunningSum) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 2);
  for (size_t vocab : {1, 7, 256, 257, 1000}) {
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = random() % 4 == 0 ? -kInf : normal(random);
    logits[vocab / 2] = 1.0f;
    SoftmaxWeights softmax;
    softmax.compute(logits, max_logit(logits), 1.0f);
    double before = 0;
    for (size_t i = 0; i < vocab; ++i) {
      const double weight = static_cast<double>(softmax.weights()[i]);
      if (weight / softmax.total() < 1e-9) continue;
      EXPECT_EQ(softmax.draw((before + 0.5 * weight) / softmax.total()), static_cast<int32_t>(i));
      before += weight;
    }
    EXPECT_GT(softmax.weights()[static_cast<size_t>(softmax.draw(0.0))], 0.0f);
    EXPECT_GT(softmax.weights()[static_cast<size_t>(softmax.draw(std::nextafter(1.0, 0.0)))], 0.0f);
  }
}

}  // namespace
}  // namespace quern
