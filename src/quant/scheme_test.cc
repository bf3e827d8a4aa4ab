#include "quant/scheme.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace quern {
namespace {

using enum WeightRole;

TEST(QuantSchemeTest, ReadsEveryForm) {
  EXPECT_TRUE(parse_quant_scheme("none")->is_none());
  EXPECT_EQ(parse_quant_scheme("int4")->ffn, QuantMode::kInt4);
  const auto hybrid = parse_quant_scheme("hybrid:ffn=int8,attention=fp16");
  ASSERT_TRUE(hybrid.has_value());
  EXPECT_EQ(hybrid->attention, QuantMode::kFp16);
  EXPECT_EQ(hybrid->ffn, QuantMode::kInt8);
}

TEST(QuantSchemeTest, RefusesTheRestByName) {
  for (const char* text : {"", "int3", "INT8", "hybrid", "hybrid:", "hybrid:attention=int8", "hybrid:attention=int8,",
                           "hybrid:attention=int8,ffn=int9", "hybrid:attention=int8,attention=int8",
                           "hybrid:attention=hybrid,ffn=int8", "hybrid:mlp=int8,ffn=int8", "hybridattention=int8"}) {
    const auto scheme = parse_quant_scheme(text);
    ASSERT_FALSE(scheme.has_value()) << text;
    EXPECT_EQ(scheme.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(scheme.error().message.starts_with("quantization: ")) << scheme.error().message;
  }
}

TEST(QuantSchemeTest, RolesDecide) {
  const QuantScheme int4 = *parse_quant_scheme("int4");
  EXPECT_EQ(int4.target(kFfn, DType::kBF16, 64), DType::kQ4_1);
  EXPECT_EQ(int4.target(kOutput, DType::kBF16, 64), DType::kQ8_0);
  EXPECT_EQ(int4.target(kKept, DType::kBF16, 64), std::nullopt);
  EXPECT_EQ(int4.target(kFfn, DType::kBF16, 48), std::nullopt);
  EXPECT_EQ(int4.target(kFfn, DType::kQ8_0, 64), std::nullopt);
  const QuantScheme hybrid = *parse_quant_scheme("hybrid:attention=fp16,ffn=int8");
  EXPECT_EQ(hybrid.target(kAttention, DType::kF32, 64), DType::kF16);
  EXPECT_EQ(hybrid.target(kAttention, DType::kBF16, 64), std::nullopt);
  EXPECT_EQ(hybrid.target(kFfn, DType::kF16, 64), DType::kQ8_0);
  const QuantScheme fp16 = *parse_quant_scheme("fp16");
  EXPECT_EQ(fp16.target(kOutput, DType::kF32, 7), DType::kF16);
  EXPECT_EQ(QuantScheme().target(kFfn, DType::kF32, 64), std::nullopt);
}

TEST(QuantSchemeTest, SaysWhatStayed) {
  EXPECT_EQ(describe({}, "none"), "");
  EXPECT_EQ(describe({.rounded = 3}, "int8"), "");
  EXPECT_NE(describe({.quantized = 3}, "int8").find("quantised already, nothing changes"), std::string::npos);
  EXPECT_NE(describe({.rounded = 1, .odd = 2, .first_odd = "x"}, "int8").find("2 matrices"), std::string::npos);
}

TEST(QuantErrorTest, IsWithinHalfAStep) {
  std::vector<float> row(64);
  for (size_t i = 0; i < row.size(); ++i) row[i] = std::sin(static_cast<float>(i));
  const auto* bytes = reinterpret_cast<const std::byte*>(row.data());
  const auto coarse = rounding_error(DType::kF32, bytes, 2, 32, DType::kQ4_1);
  const auto fine = rounding_error(DType::kF32, bytes, 2, 32, DType::kQ8_0);
  ASSERT_TRUE(coarse && fine);
  EXPECT_EQ(coarse->elements, 64);
  // A step is at most 2 / 15 and 1 / 127; scales are float16.
  EXPECT_LE(coarse->largest, 2.0 / 15 / 2 * 1.02);
  EXPECT_LE(fine->largest, 1.0 / 127 / 2 * 1.2);
  EXPECT_GT(coarse->rms(), 4 * fine->rms());
  EXPECT_GT(fine->rms(), 0);
  QuantError both = *coarse;
  both.add(*fine);
  EXPECT_EQ(both.elements, 128);
  EXPECT_EQ(both.largest, coarse->largest);
}

TEST(QuantErrorTest, NamesTheRow) {
  std::vector<float> rows(64, 1.0f);
  rows[40] = INFINITY;
  const auto error = rounding_error(DType::kF32, reinterpret_cast<const std::byte*>(rows.data()), 2, 32, DType::kQ8_0);
  ASSERT_FALSE(error);
  EXPECT_NE(error.error().message.find("row 1: element 8"), std::string::npos) << error.error().message;
}

}  // namespace
}  // namespace quern
