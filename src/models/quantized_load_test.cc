// Models that are quantised at load: near the full ones, and bit for bit the files that had been quantised before.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/gguf/gguf_writer.h"
#include "kernels/cpu/memory_meter.h"
#include "models/golden_runner.h"
#include "tensor/dequantize.h"

namespace quern::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kGguf = fs::path(QUERN_TEST_DATA) / "golden" / "gguf";

LoadOptions options_of(Precision precision, const char* scheme, QuantReport* report = nullptr) {
  return {precision, *parse_quant_scheme(scheme), report};
}

bool is_matrix(const std::string& name) {
  return name == "output.weight" || name.find(".ffn_") != std::string::npos
             ? name.find("norm") == std::string::npos
             : name.find(".attn_") != std::string::npos && name.find("norm") == std::string::npos;
}

// The same file with its matrices in `dtype` (the output matrix in `output`).
fs::path rewrite(const std::string& file, DType dtype, DType output) {
  auto source = GgufFile::open(kGguf / file);
  EXPECT_TRUE(source.has_value());
  std::vector<std::vector<std::byte>> kept;
  std::vector<TensorView> tensors;
  for (TensorView tensor : (*source)->tensors()) {
    if (is_matrix(tensor.name)) {
      const DType to = tensor.name == "output.weight" ? output : dtype;
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      dequantize(tensor.dtype, tensor.bytes.data(), values.data(), tensor.elements());
      kept.emplace_back(*dtype_bytes(to, values.size()));
      EXPECT_TRUE(quantize(to, values.data(), kept.back().data(), tensor.elements()));
      tensor.dtype = to;
      tensor.bytes = kept.back();
    }
    tensors.push_back(tensor);
  }
  const fs::path path = fs::path(::testing::TempDir()) / ("rewritten-" + file);
  EXPECT_TRUE(write_gguf(path, (*source)->metadata(), tensors).has_value());
  return path;
}

std::vector<float> logits_of(const LoadedModel& loaded) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 24; ++i) ids.push_back(5 + i * 11 % 300);
  DecoderRunner runner(*loaded.model, *loaded.device, 1, 32);
  return runner.step({{.sequence = 0, .ids = ids}});
}

class QuantizedLoadTest : public ::testing::TestWithParam<Precision> {};

TEST_P(QuantizedLoadTest, Int8IsTheFileInQ8) {
  const LoadedModel rounded = load(kGguf / "llama-f32.gguf", "cpu", options_of(GetParam(), "int8"));
  const LoadedModel file = load(rewrite("llama-f32.gguf", DType::kQ8_0, DType::kQ8_0), "cpu", GetParam());
  EXPECT_EQ(logits_of(rounded), logits_of(file));
}

TEST_P(QuantizedLoadTest, Int4IsTheFileInQ4WithItsOutputInQ8) {
  const LoadedModel rounded = load(kGguf / "llama-f32.gguf", "cpu", options_of(GetParam(), "int4"));
  const LoadedModel file = load(rewrite("llama-f32.gguf", DType::kQ4_1, DType::kQ8_0), "cpu", GetParam());
  EXPECT_EQ(logits_of(rounded), logits_of(file));
}

INSTANTIATE_TEST_SUITE_P(Precisions, QuantizedLoadTest, ::testing::Values(Precision::kFast, Precision::kExact),
                         [](const auto& info) { return info.param == Precision::kFast ? "fast" : "exact"; });

TEST(QuantizedLoadTest, StaysNearTheFullModel) {
  for (const char* file : {"llama-f32.gguf", "gemma3-f32.gguf", "mixtral-f32.gguf", "deepseek_v3-f32.gguf"}) {
    const std::vector<float> full = logits_of(load(kGguf / file, "cpu", Precision::kExact));
    float largest = 0;
    for (const float logit : full) largest = std::max(largest, std::fabs(logit));
    const auto distance = [&](const char* scheme) {
      const LoadedModel rounded = load(kGguf / file, "cpu", options_of(Precision::kExact, scheme));
      return max_abs_difference(full, logits_of(rounded)) / largest;
    };
    const float fp16 = distance("fp16"), int8 = distance("int8"), int4 = distance("int4");
    const float hybrid = distance("hybrid:attention=int4,ffn=int8");
    EXPECT_LT(fp16, 0.004f) << file;
    EXPECT_GT(int8, fp16) << file;
    // Where tokens are routed over groups of random experts, a small change sends some to others.
    EXPECT_LT(int8, std::string_view(file).starts_with("deepseek") ? 0.3f : 0.1f) << file;
    EXPECT_GT(int4, int8) << file;
    EXPECT_GT(hybrid, 0.0f) << file;
    EXPECT_LT(hybrid, 1.0f) << file;
  }
}

TEST(QuantizedLoadTest, ReportsWhatBecameOfTheMatrices) {
  QuantReport report{.measure = true};
  load(kGguf / "llama-f32.gguf", "cpu", options_of(Precision::kFast, "int4", &report));
  EXPECT_EQ(report.rounded, 3 * 7 + 1);
  EXPECT_EQ(report.quantized, 0);
  ASSERT_EQ(report.tensors.size(), 22u);
  EXPECT_LT(report.rounded_bytes * 5, report.source_bytes);
  for (const RoundedTensor& tensor : report.tensors) {
    EXPECT_GT(tensor.error.rms(), 0) << tensor.name;
    EXPECT_LT(tensor.error.relative_rms(), 0.12) << tensor.name;
  }
  QuantReport again;
  load(rewrite("llama-f32.gguf", DType::kQ4_1, DType::kQ8_0), "cpu", options_of(Precision::kFast, "int8", &again));
  EXPECT_EQ(again.rounded, 0);
  EXPECT_EQ(again.quantized, 22);
}

// The table is read where the file is mapped, and its rounded copy multiplies.
TEST(QuantizedLoadTest, ATiedOutputIsRoundedAndTheEmbeddingIsNot) {
  MemoryMeter meter;
  const auto source = open_model_source(kGguf / "gemma3-f32.gguf");
  ASSERT_TRUE(source.has_value());
  const auto model = load_decoder(**source, meter, options_of(Precision::kFast, "int8"));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const int64_t table = int64_t{(*model)->config().vocab_size} * (*model)->config().hidden_size;
  ASSERT_TRUE((*model)->config().tied_output);
  EXPECT_GE(meter.count().in_place_bytes, table * 4);
  EXPECT_GE(meter.count().packed_bytes, table * 34 / 32);
}

TEST(QuantizedLoadTest, AWeightThatIsNoNumberIsRefusedByItsTensor) {
  auto source = GgufFile::open(kGguf / "llama-f32.gguf");
  ASSERT_TRUE(source.has_value());
  std::vector<TensorView> tensors((*source)->tensors().begin(), (*source)->tensors().end());
  std::vector<std::byte> broken;
  for (TensorView& tensor : tensors) {
    if (tensor.name != "blk.1.ffn_up.weight") continue;
    broken.assign(tensor.bytes.begin(), tensor.bytes.end());
    const float nan = std::nanf("");
    std::memcpy(broken.data() + 4 * 70, &nan, sizeof(nan));
    tensor.bytes = broken;
  }
  const fs::path path = fs::path(::testing::TempDir()) / "not-a-number.gguf";
  ASSERT_TRUE(write_gguf(path, (*source)->metadata(), tensors).has_value());
  const auto opened = open_model_source(path);
  ASSERT_TRUE(opened.has_value());
  const auto device = make_cpu_device({.num_threads = 1, .isa = ""});
  const auto model = load_decoder(**opened, **device, options_of(Precision::kFast, "int8"));
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kInvalidFile);
  EXPECT_NE(model.error().message.find("blk.1.ffn_up: row 1: element 6"), std::string::npos) << model.error().message;
}

}  // namespace
}  // namespace quern::testing
