// float32 products of weight rows that lie along k, as files store them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quern {

// Rows of activations: those of a matrix, or the listed ones.
struct RowList {
  float* data = nullptr;
  int64_t stride = 0;
  const int32_t* ids = nullptr;  // null: 0, 1, 2, …

  float* at(int64_t i) const { return data + (ids != nullptr ? ids[i] : i) * stride; }
  RowList from(int64_t begin) const {
    return ids != nullptr ? RowList{data, stride, ids + begin} : RowList{data + begin * stride, stride, nullptr};
  }
};

inline constexpr int64_t kFloatTileRows = 16;

// out.at(t)[column + r] = x.at(t) · rows[r] (+ bias[r]).
struct FloatTile {
  DType dtype = DType::kF32;                   // F32, F16 or BF16
  const std::byte* rows[kFloatTileRows] = {};  // any alignment
  int64_t num_rows = 0;
  int64_t cols = 0;
  int64_t num_tokens = 0;
  RowList x;
  RowList out;
  int64_t column = 0;
  const float* bias = nullptr;  // of the first row of the tile, or null
};

// The order of each sum depends on `cols` (and the instruction set) only.
void float_tile_product(const FloatTile& tile);

}  // namespace quern
