#include "kernels/cpu/matmul_test_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "base/json.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

// The tensor "blocks" of tests/golden/quants/TYPE.safetensors.
std::vector<std::byte> read_golden_blocks(DType dtype) {
  const std::string path =
      std::string(QUERN_TEST_DATA) + "/golden/quants/" + std::string(dtype_info(dtype).name) + ".safetensors";
  std::ifstream file(path, std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), 8);
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto json = nlohmann::json::parse(header);
  const auto offsets = json.at("blocks").at("data_offsets").get<std::vector<int64_t>>();
  std::vector<std::byte> blocks(static_cast<size_t>(offsets[1] - offsets[0]));
  file.seekg(static_cast<std::streamoff>(8 + header_bytes) + offsets[0]);
  file.read(reinterpret_cast<char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
  EXPECT_TRUE(file.good()) << path;
  return blocks;
}

const std::vector<std::byte>& golden_blocks(DType dtype) {
  static std::map<DType, std::vector<std::byte>> cache;
  auto at = cache.find(dtype);
  if (at == cache.end()) at = cache.emplace(dtype, read_golden_blocks(dtype)).first;
  return at->second;
}

// Bytes of one number near 1 in size.
void put_number(DType dtype, float value, std::mt19937& rng, std::byte* target) {
  switch (dtype) {
    case DType::kF32: std::memcpy(target, &value, 4); return;
    case DType::kF64: {
      const double wide = value * 1.000001;
      std::memcpy(target, &wide, 8);
      return;
    }
    case DType::kF16: {
      const uint16_t bits = f32_to_f16(value);
      std::memcpy(target, &bits, 2);
      return;
    }
    case DType::kBF16: {
      const uint16_t bits = f32_to_bf16(value);
      std::memcpy(target, &bits, 2);
      return;
    }
    default: {  // F8: any bits whose exponent field is not full, which leaves out NaN and infinity in both types
      const auto sign = static_cast<uint8_t>(rng() % 2 << 7);
      *target = std::byte{static_cast<uint8_t>(sign | (rng() % 0x48))};
    }
  }
}

}  // namespace

WeightRows TestWeight::view(int64_t first, int64_t count) const {
  const size_t row_bytes = (bytes.size() - 1) / static_cast<size_t>(rows);
  return {dtype, count, cols, data() + static_cast<size_t>(first) * row_bytes};
}

std::vector<float> TestWeight::floats() const {
  std::vector<float> result(static_cast<size_t>(rows * cols));
  dequantize(dtype, data(), result.data(), rows * cols);
  return result;
}

std::vector<float> random_floats(int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> result(static_cast<size_t>(count));
  for (float& x : result) x = normal(rng);
  return result;
}

TestWeight random_weight(DType dtype, int64_t rows, int64_t cols, std::mt19937& rng) {
  const DTypeInfo& info = dtype_info(dtype);
  const auto num_blocks = static_cast<size_t>(rows * cols / info.block_elements);
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  TestWeight weight{dtype, rows, cols, std::vector<std::byte>(1 + num_blocks * block_bytes)};
  std::byte* at = weight.bytes.data() + 1;
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < num_blocks; ++i, at += block_bytes) {
    if (!is_quantized(dtype)) {
      put_number(dtype, normal(rng), rng, at);
      continue;
    }
    const std::vector<std::byte>& pool = golden_blocks(dtype);
    std::memcpy(at, pool.data() + rng() % (pool.size() / block_bytes) * block_bytes, block_bytes);
  }
  return weight;
}

std::vector<DType> matrix_types() {
  std::vector<DType> types = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3, DType::kF8E5M2};
  for (auto i = static_cast<uint8_t>(DType::kQ1_0); i <= static_cast<uint8_t>(DType::kNVFP4); ++i) {
    types.push_back(static_cast<DType>(i));
  }
  return types;
}

TEST(TestWeights, BlocksAreOfTheirType) {
  std::mt19937 rng(1);
  for (DType dtype : matrix_types()) {
    const TestWeight weight = random_weight(dtype, 3, 256, rng);
    float largest = 0;
    for (float x : weight.floats()) largest = std::max(largest, std::abs(x));
    EXPECT_GT(largest, 0) << dtype_info(dtype).name;
    EXPECT_LT(largest, 1e6f) << dtype_info(dtype).name;
  }
}

}  // namespace quern
