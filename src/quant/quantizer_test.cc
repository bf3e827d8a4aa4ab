// The vector bodies against the plain quantisers, which are tested against ggml's own bytes
// (formats/quants_golden_test).
#include "quant/quantizer.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tensor/dequantize.h"

namespace quern {
namespace {

constexpr DType kTargets[] = {DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};
constexpr DType kSources[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3, DType::kF8E5M2};

// Rows as a file may have them: one byte off every alignment when `offset` is 1.
std::vector<std::byte> encode(DType dtype, const std::vector<float>& values, size_t offset) {
  std::vector<std::byte> bytes(offset + *dtype_bytes(dtype, values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* target = bytes.data() + offset + i * static_cast<size_t>(dtype_info(dtype).block_bytes);
    const double wide = values[i];
    const auto eight = static_cast<uint8_t>(static_cast<int>(i * 37 + 11) % 120);  // any finite code
    switch (dtype) {
      case DType::kF64: std::memcpy(target, &wide, sizeof(wide)); break;
      case DType::kF8E4M3:
      case DType::kF8E5M2: *target = static_cast<std::byte>(eight); break;
      default: EXPECT_TRUE(quantize(dtype, &values[i], target, 1));
    }
  }
  return bytes;
}

void expect_as_plain(DType from, const std::vector<float>& values, DType to) {
  for (const size_t offset : {size_t{0}, size_t{1}}) {
    const std::vector<std::byte> source = encode(from, values, offset);
    const auto cols = static_cast<int64_t>(values.size());
    std::vector<float> floats(values.size()), scratch(values.size());
    dequantize(from, source.data() + offset, floats.data(), cols);
    std::vector<std::byte> want(*dtype_bytes(to, values.size())), got(want.size());
    ASSERT_TRUE(quantize(to, floats.data(), want.data(), cols));
    const Status status = round_row(from, source.data() + offset, to, cols, scratch.data(), got.data());
    ASSERT_TRUE(status) << status.error().message;
    ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size()), 0)
        << dtype_info(from).name << " to " << dtype_info(to).name << ", offset " << offset;
  }
}

// Every instruction set this machine and this build have.
class Rounding : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(Rounding, GivesTheBytesOfThePlainQuantiser) {
  std::mt19937 rng(7);
  for (const float spread : {1e-6f, 0.02f, 3.0f, 200.0f}) {
    std::normal_distribution<float> draw(0.0f, spread);
    for (const size_t cols : {size_t{32}, size_t{96}, size_t{2048}}) {
      std::vector<float> values(cols);
      for (float& value : values) value = draw(rng);
      for (const DType from : kSources) {
        for (const DType to : kTargets) expect_as_plain(from, values, to);
      }
    }
  }
}

// Halves, steps next to halves, peaks of both signs, zeros of both signs, constants.
TEST_P(Rounding, GivesThemForTheEdgesToo) {
  std::vector<std::vector<float>> blocks;
  blocks.emplace_back(32, 0.0f);
  blocks.emplace_back(32, -0.0f);
  blocks.emplace_back(32, 1.5f);
  blocks.emplace_back(32, -7.25f);
  std::vector<float> zeros(32, 0.0f);
  for (size_t i = 0; i < 32; i += 2) zeros[i] = -0.0f;
  blocks.push_back(zeros);
  std::ranges::reverse(zeros);
  blocks.push_back(zeros);
  std::vector<float> from_zero(32);
  for (size_t i = 0; i < 32; ++i) from_zero[i] = static_cast<float>(i);
  from_zero[0] = -0.0f;
  blocks.push_back(from_zero);
  std::vector<float> halves(32);
  for (size_t i = 0; i < 32; ++i) halves[i] = static_cast<float>(i) - 16.5f;
  halves[0] = 127.0f;  // a scale of one: codes are the numbers themselves
  blocks.push_back(halves);
  for (float& value : halves) value = std::nextafter(value, 0.0f);
  halves[0] = -127.0f;
  blocks.push_back(halves);
  std::vector<float> peaks(32, 0.25f);
  peaks[5] = -8.0f;
  peaks[9] = 8.0f;
  blocks.push_back(peaks);
  std::swap(peaks[5], peaks[9]);
  blocks.push_back(peaks);
  blocks.emplace_back(32, std::numeric_limits<float>::denorm_min());
  for (const std::vector<float>& block : blocks) {
    for (const DType to : kTargets) expect_as_plain(DType::kF32, block, to);
  }
}

TEST_P(Rounding, RefusesWhatTheTypeCannotHold) {
  std::vector<float> row(64, 1.0f), scratch(64);
  std::vector<std::byte> target(256);
  const auto refusal = [&](DType to) {
    const Status status =
        round_row(DType::kF32, reinterpret_cast<const std::byte*>(row.data()), to, 64, scratch.data(), target.data());
    EXPECT_FALSE(status.has_value());
    return status ? Error{} : status.error();
  };
  for (const DType to : kTargets) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      row[41] = bad;
      EXPECT_EQ(refusal(to).code, ErrorCode::kInvalidArgument);
      EXPECT_NE(refusal(to).message.find("element 41"), std::string::npos);
    }
    row[41] = 3e38f;
    EXPECT_EQ(refusal(to).code, ErrorCode::kInvalidArgument);
    row[41] = 1.0f;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Rounding, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

}  // namespace
}  // namespace quern
