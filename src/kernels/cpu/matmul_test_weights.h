// Random source rows of every type for tests of packing and products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/device.h"

namespace quern {

struct TestWeight {
  DType dtype;
  int64_t rows;
  int64_t cols;
  std::vector<std::byte> bytes;

  // One byte off every alignment, as rows of a file may lie.
  const std::byte* data() const { return bytes.data() + 1; }
  WeightRows view() const { return {dtype, rows, cols, data()}; }
  WeightRows view(int64_t first, int64_t count) const;
  std::vector<float> floats() const;  // [rows, cols], dequantised
};

// Blocks of quantised types are drawn from the golden vectors: random bits with scales that are sensible numbers.
TestWeight random_weight(DType dtype, int64_t rows, int64_t cols, std::mt19937& rng);

std::vector<float> random_floats(int64_t count, std::mt19937& rng);

// Every type a matrix may have.
std::vector<DType> matrix_types();

}  // namespace quern
