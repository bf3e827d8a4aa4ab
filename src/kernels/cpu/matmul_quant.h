// Products of packed panels (pack_layout.h) with activations quantised to int8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul_float.h"
#include "tensor/dtype.h"

namespace quern {

// The quantised activations of up to kTileTokens tokens. Of each block of 32 elements of a token:
//   scale = max |x| / 127, code = round to nearest even (x * 127 / max |x|), 0 where max |x| is not a normal float's
//   127 times.
// A NaN or infinity makes the scale of its block NaN or infinity and so reaches that token's outputs, no other's.
// A view of memory of bytes(…) bytes, 64-byte aligned; arrays are [block][token]. kSlackBytes behind it are readable:
// kernels may look at tokens past the last, whose values they drop.
inline constexpr int64_t kTileTokens = 32;
struct ActTile {
  int64_t num_tokens = 0;
  int64_t num_blocks = 0;
  int8_t* codes = nullptr;  // [block][token][32]
  float* scale = nullptr;
  float* scaled_sum = nullptr;  // scale * Σ code: what a weight's minimum is multiplied by
  int32_t* neg_sum = nullptr;   // -Σ code, what zero points are multiplied by
  int32_t* neg_half[2] = {};    // the same for the first and the last 16

  static constexpr size_t kSlackBytes = 1024;
  static size_t bytes(int64_t num_tokens, int64_t num_blocks);
  ActTile() = default;
  ActTile(std::byte* memory, int64_t num_tokens, int64_t num_blocks);
};

// Fills tokens [begin, end) of the tile from the same rows of x.
void quantize_rows(RowList x, const ActTile& tile, int64_t begin, int64_t end);

// out.at(t)[column + r] = scale sums of panel row r, for the first num_rows rows of a run of panels and the tokens of
// tiles that follow one another: all of kTileTokens, the last may have fewer.
struct PanelRun {
  DType dtype = DType::kQ4_0;
  const std::byte* panels = nullptr;
  size_t panel_bytes = 0;
  int64_t num_rows = 0;
  const ActTile* tiles = nullptr;
  int64_t num_tiles = 0;
  RowList out;
  int64_t column = 0;
  const float* bias = nullptr;  // of the first row of the run, or null
};
void panel_products(const PanelRun& run);

}  // namespace quern
