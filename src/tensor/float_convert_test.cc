#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/dequantize.h"

namespace quern {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Between two neighbours of the narrow type: the midpoint goes to the even one, its own neighbours to the nearer one.
template <class Narrow, class Widen>
void expect_rounds_to_nearest_even(uint16_t lower, Narrow narrow, Widen widen) {
  const auto upper = static_cast<uint16_t>(lower + 1);
  const auto midpoint = static_cast<float>((static_cast<double>(widen(lower)) + static_cast<double>(widen(upper))) / 2);
  const uint16_t even = (lower & 1u) == 0 ? lower : upper;
  ASSERT_EQ(narrow(midpoint), even) << midpoint;
  ASSERT_EQ(narrow(std::nextafter(midpoint, 0.0f)), lower) << midpoint;
  ASSERT_EQ(narrow(std::nextafter(midpoint, kInfinity)), upper) << midpoint;
  ASSERT_EQ(narrow(-midpoint), even | 0x8000u) << midpoint;
}

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(wide)))) << bits;
    } else {
      ASSERT_EQ(f32_to_f16(wide), bits);
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  for (uint16_t lower = 0; lower < 0x7bff; ++lower) expect_rounds_to_nearest_even(lower, f32_to_f16, f16_to_f32);
}

TEST(Float16, KnownValuesAndLimits) {
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_f32(0xfc00), -kInfinity);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-26f), 0);
  EXPECT_EQ(std::bit_cast<uint32_t>(f16_to_f32(0x8000)), 0x80000000u);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNaN) {
  for (uint16_t lower = 0; lower < 0x7f7f; ++lower) expect_rounds_to_nearest_even(lower, f32_to_bf16, bf16_to_f32);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(f32_to_bf16(kInfinity), 0x7f80);
}

TEST(Float8, E4M3FollowsItsDefinition) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = f8e4m3_to_f32(static_cast<uint8_t>(bits));
    const int exponent = (bits >> 3) & 15;
    const int fraction = bits & 7;
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(static_cast<double>(value), bits < 128 ? magnitude : -magnitude) << bits;
    EXPECT_EQ(std::signbit(value), bits >= 128);
  }
  EXPECT_EQ(f8e4m3_to_f32(0x7e), 448.0f);  // the largest
}

TEST(Float8, E5M2IsTheUpperHalfOfAFloat16) {
  EXPECT_EQ(f8e5m2_to_f32(0x7b), 57344.0f);  // the largest
  EXPECT_EQ(f8e5m2_to_f32(0x01), 0x1p-16f);
  EXPECT_EQ(f8e5m2_to_f32(0xfc), -kInfinity);
  EXPECT_TRUE(std::isnan(f8e5m2_to_f32(0x7f)));
}

TEST(Dequantize, IntegersConvertByValue) {
  const int16_t source[] = {-3, 0, 32767};
  float target[3];
  dequantize(DType::kI16, reinterpret_cast<const std::byte*>(source), target, 3);
  EXPECT_EQ(target[0], -3.0f);
  EXPECT_EQ(target[2], 32767.0f);
  const uint8_t flags[] = {0, 1};
  dequantize(DType::kBool, reinterpret_cast<const std::byte*>(flags), target, 2);
  EXPECT_EQ(target[0], 0.0f);
  EXPECT_EQ(target[1], 1.0f);
}

}  // namespace
}  // namespace quern
