// Products of F16 and BF16 weights with activations rounded to bfloat16, by matrix tiles (tiles.h). Sums are float32,
// one chain along k per output whatever the number of tokens: a single token takes the same instructions.
//
// A panel holds 16 rows, padded with zeros, as tiles of 32 k, one after the other: [k / 32][k % 32 / 2][row][2].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul_float.h"
#include "tensor/dtype.h"

namespace quern {

inline constexpr int64_t kBf16TileCols = 32;

// Whether weights of `dtype` are packed for bfloat16 tiles on this machine, now.
bool packs_to_bf16(DType dtype);

size_t bf16_panel_bytes(int64_t cols);
// rows[i] holds `cols` elements of F16 or BF16, any alignment.
void pack_bf16_panel(DType dtype, const std::byte* const* rows, int64_t num_rows, int64_t cols, std::byte* panel);

// Rounded activations: rows of `stride` elements, a multiple of kBf16TileCols, zeros behind the last column.
// kBf16SlackRows rows behind the last are readable.
inline constexpr int64_t kBf16SlackRows = 16;
constexpr int64_t bf16_stride(int64_t cols) {
  return (cols + kBf16TileCols - 1) / kBf16TileCols * kBf16TileCols;
}
void round_row_to_bf16(const float* x, int64_t cols, uint16_t* out);

// out.at(t)[column + r] = x row t · panel row r (+ bias[r]) for the first num_rows rows of a run of panels.
struct Bf16Run {
  const std::byte* panels = nullptr;
  size_t panel_bytes = 0;
  int64_t num_rows = 0;
  const uint16_t* x = nullptr;
  int64_t x_stride = 0;
  int64_t num_tokens = 0;
  RowList out;
  int64_t column = 0;
  const float* bias = nullptr;  // of the first row of the run, or null
};
void bf16_products(const Bf16Run& run);

}  // namespace quern
