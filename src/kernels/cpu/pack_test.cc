#include "kernels/cpu/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_bf16.h"
#include "kernels/cpu/matmul_test_weights.h"
#include "kernels/cpu/pack_layout.h"

namespace quern {
namespace {

void expect_rows_equal(const std::vector<float>& got, const std::vector<float>& want, DType dtype) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0)
        << dtype_info(dtype).name << " element " << i << ": " << got[i] << " for " << want[i];
  }
}

TEST(Pack, EmbedGivesTheStoredValues) {
  std::mt19937 rng(2);
  for (DType dtype : matrix_types()) {
    for (int64_t rows : {1, 15, 16, 37}) {
      for (Precision precision : {Precision::kFast, Precision::kExact}) {
        const TestWeight source = random_weight(dtype, rows, 768, rng);
        CpuMatmul cpu(1);
        const WeightRows part = source.view();
        const auto weight = cpu.pack_weight({&part, 1}, 1, precision);
        ASSERT_TRUE(weight.has_value()) << weight.error().message;
        std::vector<int32_t> ids(static_cast<size_t>(rows));
        std::iota(ids.rbegin(), ids.rend(), 0);
        std::vector<float> out(static_cast<size_t>(rows * 768));
        // Last row first: the stride is walked from row 0 on, ids are not.
        cpu.embed(**weight, ids, {out.data(), rows, 768, 768});
        std::vector<float> want = source.floats();
        for (int64_t r = 0; r < rows / 2; ++r) {
          std::swap_ranges(want.begin() + r * 768, want.begin() + (r + 1) * 768, want.begin() + (rows - 1 - r) * 768);
        }
        expect_rows_equal(out, want, dtype);
      }
    }
  }
}

TEST(Pack, MemoryStaysNearTheSource) {
  std::mt19937 rng(3);
  for (DType dtype : matrix_types()) {
    const TestWeight source = random_weight(dtype, 32, 1024, rng);
    const WeightRows part = source.view();
    CpuMatmul cpu(1);
    const auto weight = cpu.pack_weight({&part, 1}, 1, Precision::kFast);
    ASSERT_TRUE(weight.has_value());
    const double ratio = static_cast<double>((*weight)->device_bytes) / static_cast<double>(source.bytes.size() - 1);
    if (packed_layout(dtype).record_blocks == 0 && !packs_to_bf16(dtype)) {
      EXPECT_EQ((*weight)->device_bytes, 0u) << dtype_info(dtype).name;
    } else {
      // TQ1_0 stores base 3 digits, which no shift takes apart: two bits each are 1.22 times the source.
      EXPECT_LE(ratio, dtype == DType::kTQ1_0 ? 1.23 : 1.1) << dtype_info(dtype).name;
    }
  }
}

TEST(Pack, PartsAndPlanesAreCountedThrough) {
  std::mt19937 rng(4);
  for (DType dtype : {DType::kQ4_0, DType::kQ6K, DType::kBF16}) {
    const TestWeight source = random_weight(dtype, 42, 256, rng);
    const WeightRows parts[] = {source.view(0, 5), source.view(5, 0), source.view(5, 30), source.view(35, 7)};
    auto weight = CpuWeight::create(parts, 2);
    ASSERT_TRUE(weight.has_value());
    ASSERT_TRUE((*weight)->pack(nullptr).has_value());
    EXPECT_EQ((*weight)->rows, 21);
    EXPECT_EQ((*weight)->planes, 2);
    for (int64_t r : {0, 4, 5, 20, 21, 34, 35, 41}) EXPECT_EQ((*weight)->source_row(r), source.view(r, 1).bytes);
  }
}

TEST(Pack, RefusesWhatDoesNotFit) {
  std::mt19937 rng(5);
  const TestWeight a = random_weight(DType::kQ4_0, 4, 64, rng);
  const TestWeight b = random_weight(DType::kQ4_1, 4, 64, rng);
  const TestWeight c = random_weight(DType::kQ4_0, 4, 96, rng);
  CpuMatmul cpu(1);
  const auto code = [&](std::vector<WeightRows> parts, int64_t planes) {
    const auto weight = cpu.pack_weight(parts, planes, Precision::kFast);
    return weight.has_value() ? ErrorCode::kInternal : weight.error().code;
  };
  EXPECT_EQ(code({}, 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({a.view(), b.view()}, 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({a.view(), c.view()}, 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({a.view()}, 3), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({a.view()}, 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{DType::kQ4_0, 1, 33, a.data()}}, 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{DType::kI32, 1, 4, a.data()}}, 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{DType::kQ4_0, -1, 32, a.data()}}, 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{DType::kQ4_0, 0, 32, a.data()}}, 1), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace quern
