// Blocks of every quantised type against tests/golden/quants. In this room because the vectors are safetensors files.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/safetensors/safetensors_file.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

const std::filesystem::path kQuants = std::filesystem::path(QUERN_TEST_DATA) / "golden" / "quants";

std::vector<float> as_floats(const TensorView& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

class GoldenQuants : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto file = SafetensorsFile::open(kQuants / (GetParam() + ".safetensors"));
    ASSERT_TRUE(file) << file.error().message;
    file_ = std::move(*file);
    const auto dtype = dtype_from_name(GetParam());
    ASSERT_TRUE(dtype);
    dtype_ = *dtype;
    blocks_ = file_->find("blocks");
    ASSERT_NE(blocks_, nullptr);
    ASSERT_NE(file_->find("values"), nullptr);
    values_ = as_floats(*file_->find("values"));
  }

  std::unique_ptr<SafetensorsFile> file_;
  DType dtype_ = DType::kF32;
  const TensorView* blocks_ = nullptr;
  std::vector<float> values_;
};

TEST_P(GoldenQuants, DequantizesToTheSameBits) {
  ASSERT_EQ(dtype_bytes(dtype_, values_.size()), blocks_->bytes.size());
  std::vector<float> ours(values_.size());
  dequantize(dtype_, blocks_->bytes.data(), ours.data(), static_cast<int64_t>(ours.size()));
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(ours[i]), std::bit_cast<uint32_t>(values_[i]))
        << "element " << i << ": " << ours[i] << " instead of " << values_[i];
  }
}

// The last 32 blocks are what the reference quantiser made of `src`.
class GoldenQuantizer : public GoldenQuants {
 protected:
  void SetUp() override {
    GoldenQuants::SetUp();
    ASSERT_NE(file_->find("src"), nullptr);
    source_ = as_floats(*file_->find("src"));
    reference_ = blocks_->bytes.last(*dtype_bytes(dtype_, source_.size()));
    ours_.resize(reference_.size());
    const Status status = quantize(dtype_, source_.data(), ours_.data(), static_cast<int64_t>(source_.size()));
    ASSERT_TRUE(status) << status.error().message;
  }

  double squared_error(std::span<const std::byte> blocks) const {
    std::vector<float> values(source_.size());
    dequantize(dtype_, blocks.data(), values.data(), static_cast<int64_t>(values.size()));
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += std::pow(static_cast<double>(values[i]) - source_[i], 2);
    return sum;
  }

  std::vector<float> source_;
  std::span<const std::byte> reference_;
  std::vector<std::byte> ours_;
};

using GoldenQuantizerBytes = GoldenQuantizer;
TEST_P(GoldenQuantizerBytes, AreTheReferences) {
  const size_t block_bytes = static_cast<size_t>(dtype_info(dtype_).block_bytes);
  for (size_t i = 0; i < ours_.size(); ++i)
    ASSERT_EQ(ours_[i], reference_[i]) << "block " << i / block_bytes << " byte " << i % block_bytes;
}

using GoldenQuantizerError = GoldenQuantizer;
TEST_P(GoldenQuantizerError, IsNotAboveTheReferences) {
  const double ours = squared_error(ours_);
  EXPECT_LE(ours, squared_error(reference_));
  EXPECT_GT(ours, 0);
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenQuantizerBytes,
                         testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0",
                                         "MXFP4"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Types, GoldenQuantizerError, testing::Values("Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(Types, GoldenQuants,
                         testing::Values("F16", "BF16", "Q1_0", "Q2_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K",
                                         "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S",
                                         "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"),
                         [](const auto& info) { return info.param; });

// The table of types itself: name, GGUF number, elements and bytes per block.
TEST(DTypeTable, AgreesWithTheGoldenList) {
  std::ifstream list(kQuants / "types.tsv");
  std::string name, rest;
  uint32_t id = 0;
  int32_t elements = 0, bytes = 0, rows = 0;
  std::getline(list, rest);  // heading
  while (list >> name >> id >> elements >> bytes && std::getline(list, rest)) {
    const auto dtype = dtype_from_gguf(id);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(dtype_info(*dtype).name, name);
    EXPECT_EQ(dtype_info(*dtype).block_elements, elements) << name;
    EXPECT_EQ(dtype_info(*dtype).block_bytes, bytes) << name;
    EXPECT_EQ(dtype_from_name(name), dtype);
    ++rows;
  }
  EXPECT_EQ(rows, 33);
  for (const uint32_t removed : {4u, 5u, 9u, 15u, 31u, 32u, 33u, 36u, 37u, 38u, 43u})
    EXPECT_FALSE(dtype_from_gguf(removed)) << removed;
}

}  // namespace
}  // namespace quern
