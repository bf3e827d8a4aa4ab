#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tensor/dequantize.h"

namespace quern {
namespace {

constexpr DType kWritable[] = {DType::kF32,  DType::kF16,   DType::kBF16,  DType::kQ4_0, DType::kQ4_1,
                               DType::kQ5_0, DType::kQ5_1,  DType::kQ8_0,  DType::kQ4K,  DType::kQ5K,
                               DType::kQ6K,  DType::kTQ1_0, DType::kTQ2_0, DType::kMXFP4};

class Quantize : public testing::TestWithParam<DType> {
 protected:
  static constexpr size_t kElements = 512;

  Status run(const std::vector<float>& source) {
    blocks_.resize(*dtype_bytes(GetParam(), source.size()));
    return quantize(GetParam(), source.data(), blocks_.data(), static_cast<int64_t>(source.size()));
  }
  std::vector<float> back() const {
    std::vector<float> values(kElements);
    dequantize(GetParam(), blocks_.data(), values.data(), kElements);
    return values;
  }

  std::vector<std::byte> blocks_;
};

TEST_P(Quantize, ZeroStaysZero) {
  ASSERT_TRUE(run(std::vector<float>(kElements, 0.0f)));
  for (const float value : back()) ASSERT_EQ(value, 0.0f);
}

TEST_P(Quantize, NumbersTooSmallForAnyScaleGiveFiniteNearZero) {
  for (const float tiny : {1e-45f, 1e-38f, 1e-30f, 1e-12f}) {
    std::vector<float> source(kElements, tiny);
    for (size_t i = 0; i < kElements; i += 3) source[i] = -tiny;
    ASSERT_TRUE(run(source)) << tiny;
    for (const float value : back()) ASSERT_LE(std::fabs(value), 1e-7f) << tiny;
  }
}

TEST_P(Quantize, TheErrorStaysWithinAStepOfTheType) {
  std::vector<float> source(kElements);
  for (size_t i = 0; i < kElements; ++i) source[i] = std::sin(static_cast<float>(i) * 1.7f);
  ASSERT_TRUE(run(source));
  // Steps for a block that spans [-1, 1]: ternary types have 1, four bits 2/15 or up to 1/2 (MXFP4 near its peak).
  const bool coarse = GetParam() == DType::kTQ1_0 || GetParam() == DType::kTQ2_0 || GetParam() == DType::kMXFP4;
  const std::vector<float> values = back();
  for (size_t i = 0; i < kElements; ++i) ASSERT_NEAR(values[i], source[i], coarse ? 0.51f : 0.14f) << i;
}

TEST_P(Quantize, RefusesWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> source(kElements, 1.0f);
    source[300] = bad;
    const Status status = run(source);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find("element 300"), std::string::npos);
  }
}

TEST_P(Quantize, RefusesNumbersOverTheRangeOfTheScale) {
  std::vector<float> source(kElements, 0.0f);
  source[1] = std::numeric_limits<float>::max();
  source[2] = -std::numeric_limits<float>::max();
  const Status status = run(source);
  if (GetParam() == DType::kF32 || GetParam() == DType::kMXFP4) {  // their range is that of float32
    ASSERT_TRUE(status);
    for (const float value : back()) ASSERT_TRUE(std::isfinite(value));
    return;
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Types, Quantize, testing::ValuesIn(kWritable),
                         [](const auto& info) { return std::string(dtype_info(info.param).name); });

TEST(QuantizeTypes, OthersAreUnsupported) {
  const std::vector<float> source(256, 0.0f);
  std::vector<std::byte> target(2048);
  for (const DType dtype : {DType::kQ2K, DType::kIQ2XXS, DType::kI8, DType::kNVFP4}) {
    const Status status = quantize(dtype, source.data(), target.data(), 256);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace quern
