#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern {
namespace {

RopeConfig plain(int32_t dim) {
  RopeConfig config;
  config.rotary_dim = dim;
  return config;
}

// Frequencies of a table: the angles at position 1.
std::vector<double> frequencies(const RopeTable& table, int32_t length) {
  std::vector<float> cosine(static_cast<size_t>(table.half())), sine(cosine.size());
  table.fill(1, length, cosine.data(), sine.data());
  std::vector<double> result;
  for (size_t i = 0; i < cosine.size(); ++i) result.push_back(std::atan2(sine[i], cosine[i]));
  return result;
}

TEST(RopeTableTest, FirstPositionIsNotRotated) {
  const RopeTable table(plain(8));
  float cosine[4], sine[4];
  table.fill(0, 1, cosine, sine);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(cosine[i], 1.0f);
    EXPECT_EQ(sine[i], 0.0f);
  }
}

TEST(RopeTableTest, FrequenciesFallByPowersOfTheta) {
  const std::vector<double> seen = frequencies(RopeTable(plain(8)), 1);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], std::pow(10000.0, -static_cast<double>(i) / 4.0), 1e-7);
}

TEST(RopeTableTest, LinearDividesPositions) {
  RopeConfig config = plain(8);
  config.scaling = RopeScaling::kLinear;
  config.factor = 4.0f;
  EXPECT_NEAR(frequencies(RopeTable(config), 1)[0], 0.25, 1e-7);
}

TEST(RopeTableTest, LongRopeChoosesByLengthNotByPosition) {
  RopeConfig config = plain(4);
  config.scaling = RopeScaling::kLongRope;
  config.original_context = 32;
  config.short_factors = {2.0f, 2.0f};
  config.long_factors = {8.0f, 8.0f};
  const RopeTable table(config);
  EXPECT_NEAR(frequencies(table, 32)[0], 0.5, 1e-7);
  EXPECT_NEAR(frequencies(table, 33)[0], 0.125, 1e-7);
}

TEST(RopeTableTest, DynamicGrowsTheBaseBeyondTheContext) {
  RopeConfig config = plain(8);
  config.scaling = RopeScaling::kDynamic;
  config.factor = 2.0f;
  config.original_context = 32;
  const RopeTable table(config);
  EXPECT_EQ(frequencies(table, 32), frequencies(RopeTable(plain(8)), 32));
  // theta' = theta * (2 * 64 / 32 - 1)^(8 / 6) at length 64.
  const double theta = 10000.0 * std::pow(3.0, 8.0 / 6.0);
  EXPECT_NEAR(frequencies(table, 64)[1], std::pow(theta, -0.25), 1e-7);
}

TEST(RopeTableTest, AttentionFactorScalesBoth) {
  RopeConfig config = plain(4);
  config.attention_factor = 1.5f;
  float cosine[2], sine[2];
  RopeTable(config).fill(3, 4, cosine, sine);
  EXPECT_NEAR(std::hypot(cosine[0], sine[0]), 1.5, 1e-6);
}

TEST(YarnMscaleTest, GrowsWithTheLogarithmOfTheFactor) {
  EXPECT_EQ(yarn_mscale(1.0f, 1.0f), 1.0f);
  EXPECT_NEAR(yarn_mscale(4.0f, 1.0f), 0.1 * std::log(4.0) + 1.0, 1e-6);
}

}  // namespace
}  // namespace quern
