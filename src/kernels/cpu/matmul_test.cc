#include "kernels/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/matmul_bf16.h"
#include "kernels/cpu/matmul_test_weights.h"
#include "kernels/cpu/pack_layout.h"
#include "kernels/cpu/tiles.h"
#include "tensor/dequantize.h"

// clang-format off: Highway counts the targets that are chosen before it is seen
#include "kernels/cpu/dot_targets.h"
#include <hwy/highway.h>
// clang-format on

namespace quern {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

Mat mat(std::vector<float>& data, int64_t cols) {
  return {data.data(), static_cast<int64_t>(data.size()) / cols, cols, cols};
}

// The source must outlive the weight: it may be read in place.
std::unique_ptr<Weight> pack(TestWeight&&, int64_t, Precision) = delete;
std::unique_ptr<Weight> pack(const TestWeight& source, int64_t planes, Precision precision) {
  CpuMatmul cpu(1);
  const WeightRows part = source.view();
  auto weight = cpu.pack_weight({&part, 1}, planes, precision);
  EXPECT_TRUE(weight.has_value());
  return std::move(*weight);
}

std::vector<float> multiply(const Weight& weight, std::vector<float>& x, const float* bias, int32_t num_threads) {
  ThreadPool pool(num_threads);
  CpuMatmul cpu(num_threads);
  const Mat in = mat(x, weight.cols);
  std::vector<float> out(static_cast<size_t>(in.rows * weight.rows), std::nanf(""));
  const Device::MatmulTarget target{&weight, bias, mat(out, weight.rows)};
  cpu.matmul(pool, in, {&target, 1});
  return out;
}

// What the fast path multiplies: x as its int8 codes and block scales say.
std::vector<double> quantized_activations(const std::vector<float>& x) {
  std::vector<double> result(x.size());
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float max = 0;
    for (size_t i = begin; i < begin + 32; ++i) max = std::max(max, std::abs(x[i]));
    const float factor = max > 0 ? 127.0f / max : 0.0f;
    for (size_t i = begin; i < begin + 32; ++i) {
      result[i] = static_cast<double>(max / 127.0f) * std::nearbyint(x[i] * factor);
    }
  }
  return result;
}

struct Expected {
  double value;
  double tolerance;
};

// One output in double. The float path rounds once per addition; each rounding is at most epsilon of the sum of
// magnitudes.
Expected dot_in_place(const float* x, const float* w, int64_t cols, double bias) {
  double sum = 0;
  double magnitude = 0;
  for (int64_t i = 0; i < cols; ++i) {
    sum += double{x[i]} * w[i];
    magnitude += std::abs(double{x[i]} * w[i]);
  }
  return {sum + bias, kEpsilon * (static_cast<double>(cols + 2) * magnitude + std::abs(sum + bias))};
}

// The packed path sums integers exactly and rounds per block only: scale product, two multiply-adds, twice where halves
// have their own scale. scale * code and min are each at most a few times the largest weight of the block.
Expected dot_packed(const double* x, const float* w, int64_t cols, double bias) {
  double sum = 0;
  double magnitude = 0;
  for (int64_t b = 0; b < cols; b += 32) {
    double largest = 0;
    double act = 0;
    for (int64_t i = b; i < b + 32; ++i) {
      sum += x[i] * w[i];
      largest = std::max(largest, std::abs(double{w[i]}));
      act += std::abs(x[i]);
    }
    magnitude += 4 * largest * act;
  }
  const double roundings = 4.0 * static_cast<double>(cols) / 32 + 4;
  return {sum + bias, kEpsilon * (roundings * magnitude + std::abs(sum + bias))};
}

void check_products(DType dtype, Precision precision, int64_t rows, int64_t cols, int64_t tokens, std::mt19937& rng) {
  const TestWeight source = random_weight(dtype, rows, cols, rng);
  const auto weight = pack(source, 1, precision);
  std::vector<float> x = random_floats(tokens * cols, rng);
  const std::vector<float> bias = random_floats(rows, rng);
  const std::vector<float> out = multiply(*weight, x, bias.data(), 1);
  std::vector<float> w = source.floats();
  if (precision == Precision::kFast && packs_to_bf16(dtype)) {
    for (float& value : w) value = bf16_to_f32(f32_to_bf16(value));
    for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
  }
  const bool packed = precision == Precision::kFast && packed_layout(dtype).record_blocks > 0;
  const std::vector<double> codes = packed ? quantized_activations(x) : std::vector<double>();
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < rows; ++r) {
      const double b = bias[static_cast<size_t>(r)];
      const Expected want = packed ? dot_packed(codes.data() + t * cols, w.data() + r * cols, cols, b)
                                   : dot_in_place(x.data() + t * cols, w.data() + r * cols, cols, b);
      const double got = out[static_cast<size_t>(t * rows + r)];
      ASSERT_LE(std::abs(got - want.value), want.tolerance)
          << dtype_info(dtype).name << (packed ? " packed" : " in place") << " [" << rows << ", " << cols << "] token "
          << t << " row " << r << ": " << got << " for " << want.value;
    }
  }
}

// Every test runs once on each instruction set that this machine and this build have.
class MatmulTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    cpu::set_use_tiles(true);
    choose(GetParam());
  }
  void TearDown() override { choose(0); }

 private:
  // A build for one instruction set has nothing to choose, and no library of highway's to choose with.
  static void choose(int64_t targets) {
    if constexpr ((HWY_TARGETS & (HWY_TARGETS - 1)) != 0) hwy::SetSupportedTargetsForTest(targets);
  }
};

std::vector<int64_t> targets() {
  std::vector<int64_t> result;
  for (int64_t left = HWY_SUPPORTED_TARGETS & (HWY_TARGETS); left != 0; left &= left - 1)
    result.push_back(left & -left);
  return result;
}

INSTANTIATE_TEST_SUITE_P(AllTargets, MatmulTest, testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

TEST_P(MatmulTest, MatchesDoubleReference) {
  std::mt19937 rng(7);
  for (DType dtype : matrix_types()) {
    for (Precision precision : {Precision::kFast, Precision::kExact}) {
      const int64_t block = std::max(dtype_info(dtype).block_elements, 32);
      for (int64_t rows : {1, 16, 37}) check_products(dtype, precision, rows, block, 3, rng);
      for (int64_t tokens : {1, 2, 4, 6}) check_products(dtype, precision, 33, 768, tokens, rng);
      check_products(dtype, precision, 19, 3 * block, 41, rng);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatmulTest, PlainFloatsTakeAnyNumberOfColumns) {
  std::mt19937 rng(8);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF64}) {
    for (int64_t cols : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100}) {
      for (int64_t rows : {1, 3, 5, 18}) check_products(dtype, Precision::kFast, rows, cols, 4, rng);
    }
  }
}

// Codes and activations at the ends of their ranges with equal signs: the largest sums that partial sums must hold.
TEST_P(MatmulTest, LargestSumsDoNotOverflow) {
  constexpr int64_t kRows = 16;
  constexpr int64_t kCols = 256;
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4K, DType::kQ5K,
                      DType::kQ6K, DType::kMXFP4, DType::kTQ2_0}) {
    for (bool negative_first : {false, true}) {
      std::vector<float> w(kRows * kCols);
      for (size_t i = 0; i < w.size(); ++i) w[i] = (i % 2 == 0) == negative_first ? -1.0f : 1.0f;
      TestWeight source{dtype, kRows, kCols, {}};
      source.bytes.resize(1 + *dtype_bytes(dtype, kRows * kCols));
      ASSERT_TRUE(quantize(dtype, w.data(), source.bytes.data() + 1, kRows * kCols).has_value());
      const auto weight = pack(source, 1, Precision::kFast);
      std::vector<float> x(w.begin(), w.begin() + kCols);
      const std::vector<float> out = multiply(*weight, x, nullptr, 1);
      const std::vector<float> stored = source.floats();
      const std::vector<double> acts = quantized_activations(x);
      for (int64_t r = 0; r < kRows; ++r) {
        const Expected want = dot_packed(acts.data(), stored.data() + r * kCols, kCols, 0);
        ASSERT_NEAR(out[static_cast<size_t>(r)], want.value, want.tolerance) << dtype_info(dtype).name;
      }
    }
  }
  // No quantiser of ours writes -128, a file may.
  TestWeight source{DType::kQ8_0, 1, 32, std::vector<std::byte>(35, std::byte{0x80})};
  const uint16_t one = f32_to_f16(1.0f);
  std::memcpy(source.bytes.data() + 1, &one, 2);
  std::vector<float> x(32, -127.0f);
  EXPECT_EQ(multiply(*pack(source, 1, Precision::kFast), x, nullptr, 1)[0], 128.0f * 127 * 32);
}

TEST_P(MatmulTest, RowsAreTheSameAloneInABatchAndOnAnyThread) {
  std::mt19937 rng(9);
  constexpr int64_t kTokens = 37;
  for (DType dtype : matrix_types()) {
    const int64_t cols = dtype_info(dtype).block_elements > 1 ? 512 : 515;
    const int64_t rows = 90;
    const TestWeight source = random_weight(dtype, rows, cols, rng);
    const auto weight = pack(source, 1, Precision::kFast);
    std::vector<float> x = random_floats(kTokens * cols, rng);
    const std::vector<float> bias = random_floats(rows, rng);
    const std::vector<float> all = multiply(*weight, x, bias.data(), 1);
    EXPECT_EQ(multiply(*weight, x, bias.data(), 2), all) << dtype_info(dtype).name;
    for (int64_t t = 0; t < kTokens; t += 5) {
      std::vector<float> row(x.begin() + t * cols, x.begin() + (t + 1) * cols);
      const std::vector<float> alone = multiply(*weight, row, bias.data(), 1);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + t * rows))
          << dtype_info(dtype).name << " token " << t;
    }
  }
}

TEST_P(MatmulTest, MatrixTilesChangeNoBit) {
  if (!cpu::has_tiles()) GTEST_SKIP() << "no matrix tiles on this machine";
  std::mt19937 rng(14);
  for (DType dtype : matrix_types()) {
    if (packed_layout(dtype).record_blocks == 0) continue;
    for (int64_t tokens : {4, 7, 13, 16, 33, 70}) {
      const TestWeight source = random_weight(dtype, 53, 768, rng);
      const auto weight = pack(source, 1, Precision::kFast);
      std::vector<float> x = random_floats(tokens * 768, rng);
      const std::vector<float> bias = random_floats(53, rng);
      const std::vector<float> with = multiply(*weight, x, bias.data(), 2);
      cpu::set_use_tiles(false);
      const std::vector<float> without = multiply(*weight, x, bias.data(), 2);
      cpu::set_use_tiles(true);
      ASSERT_EQ(with, without) << dtype_info(dtype).name << ", " << tokens << " tokens";
    }
  }
}

TEST(Bf16, RoundsToNearestEven) {
  const std::vector<float> values = {0.0f,      -0.0f,     1.0f,          1.00390625f,     1.01171875f, 3.4e38f,
                                     -1.5e-40f, INFINITY,  -INFINITY,     0x1.fffffep127f, 0.1f,        -12345.678f,
                                     0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -1e-30f,         7.0f,        0x1.fefffep5f};
  std::vector<uint16_t> rounded(static_cast<size_t>(bf16_stride(static_cast<int64_t>(values.size()))), 0xffff);
  round_row_to_bf16(values.data(), static_cast<int64_t>(values.size()), rounded.data());
  for (size_t i = 0; i < rounded.size(); ++i) {
    EXPECT_EQ(rounded[i], i < values.size() ? f32_to_bf16(values[i]) : 0) << i;
  }
  const float nan = std::nanf("");
  round_row_to_bf16(&nan, 1, rounded.data());
  EXPECT_TRUE(std::isnan(bf16_to_f32(rounded[0])));
}

TEST_P(MatmulTest, SeveralTargetsAreTheSameAsOne) {
  std::mt19937 rng(10);
  constexpr int64_t kCols = 256;
  const TestWeight sources[] = {random_weight(DType::kQ4K, 70, kCols, rng), random_weight(DType::kQ6K, 20, kCols, rng),
                                random_weight(DType::kBF16, 33, kCols, rng)};
  const auto a = pack(sources[0], 1, Precision::kFast);
  const auto b = pack(sources[1], 1, Precision::kFast);
  const auto c = pack(sources[2], 1, Precision::kFast);
  std::vector<float> x = random_floats(40 * kCols, rng);
  // Columns of one wide matrix, as fused outputs are.
  std::vector<float> out(40 * 123);
  const Mat all = mat(out, 123);
  const Device::MatmulTarget targets[] = {{a.get(), nullptr, all.slice_cols(0, 70)},
                                          {b.get(), nullptr, all.slice_cols(70, 20)},
                                          {c.get(), nullptr, all.slice_cols(90, 33)}};
  ThreadPool pool(2);
  CpuMatmul cpu(2);
  cpu.matmul(pool, mat(x, kCols), targets);
  for (const Device::MatmulTarget& target : targets) {
    const std::vector<float> alone = multiply(*target.weight, x, nullptr, 1);
    for (int64_t t = 0; t < 40; ++t) {
      EXPECT_EQ(std::memcmp(target.out.row(t), alone.data() + t * target.weight->rows,
                            static_cast<size_t>(target.weight->rows) * sizeof(float)),
                0);
    }
  }
}

TEST_P(MatmulTest, ExpertsAreTheSameAsPlainProducts) {
  std::mt19937 rng(11);
  constexpr int64_t kExperts = 3;
  constexpr int64_t kRows = 21;  // planes start inside no panel of another
  constexpr int64_t kTokens = 50;
  for (DType dtype : {DType::kQ4_0, DType::kQ5K, DType::kMXFP4, DType::kIQ2S, DType::kF16}) {
    const int64_t cols = 256;
    const TestWeight source = random_weight(dtype, kExperts * kRows, cols, rng);
    const auto weight = pack(source, kExperts, Precision::kFast);
    std::vector<float> x = random_floats(kTokens * cols, rng);
    std::vector<float> bias = random_floats(kExperts * kRows, rng);
    std::vector<int32_t> sources[kExperts];
    std::vector<int32_t> slots[kExperts];
    for (int32_t slot = 0; slot < 2 * kTokens; ++slot) {
      const size_t expert = slot == 0 ? 2 : rng() % 2;  // the last has a single token
      sources[expert].push_back(slot / 2);
      slots[expert].push_back(slot);
    }
    const ExpertRows groups[] = {
        {1, sources[1], slots[1]}, {0, {}, {}}, {2, sources[2], slots[2]}, {0, sources[0], slots[0]}};
    std::vector<float> out(2 * kTokens * kRows);
    ThreadPool pool(2);
    CpuMatmul cpu(2);
    cpu.matmul_experts(pool, mat(x, cols), *weight, bias.data(), groups, mat(out, kRows));
    for (int64_t e = 0; e < kExperts; ++e) {
      CpuMatmul single(1);
      const WeightRows part = source.view(e * kRows, kRows);
      const auto plane = single.pack_weight({&part, 1}, 1, Precision::kFast);
      const std::vector<float> plain = multiply(**plane, x, bias.data() + e * kRows, 1);
      const auto expert = static_cast<size_t>(e);
      for (size_t i = 0; i < slots[expert].size(); ++i) {
        EXPECT_EQ(std::memcmp(out.data() + slots[expert][i] * kRows, plain.data() + sources[expert][i] * kRows,
                              kRows * sizeof(float)),
                  0)
            << dtype_info(dtype).name << " expert " << e << " token " << sources[expert][i];
      }
    }
  }
}

TEST_P(MatmulTest, NothingToDo) {
  std::mt19937 rng(12);
  const TestWeight source = random_weight(DType::kQ4_0, 20, 64, rng);
  const auto weight = pack(source, 1, Precision::kFast);
  std::vector<float> x;
  EXPECT_TRUE(multiply(*weight, x, nullptr, 2).empty());
  ThreadPool pool(2);
  CpuMatmul cpu(2);
  std::vector<float> out(20, 5.0f);
  cpu.matmul_experts(pool, {nullptr, 0, 64, 64}, *weight, nullptr, {}, mat(out, 20));
  EXPECT_EQ(out, std::vector<float>(20, 5.0f));
}

// One sequence's broken numbers reach its own outputs and no other's.
TEST_P(MatmulTest, NanStaysInItsRow) {
  std::mt19937 rng(13);
  constexpr int64_t kCols = 256;
  for (DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kQ4K, DType::kQ6K, DType::kF32, DType::kBF16}) {
    const TestWeight source = random_weight(dtype, 40, kCols, rng);
    const auto weight = pack(source, 1, Precision::kFast);
    std::vector<float> x = random_floats(6 * kCols, rng);
    const std::vector<float> clean = multiply(*weight, x, nullptr, 1);
    x[2 * kCols + 77] = std::nanf("");
    x[4 * kCols + 5] = INFINITY;
    const std::vector<float> out = multiply(*weight, x, nullptr, 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t token = i / 40;
      if (token == 2 || token == 4) {
        EXPECT_FALSE(std::isfinite(out[i])) << dtype_info(dtype).name;
      } else {
        EXPECT_EQ(out[i], clean[i]) << dtype_info(dtype).name;
      }
    }
  }
}

}  // namespace
}  // namespace quern
