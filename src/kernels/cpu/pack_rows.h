// Between source blocks and packed panels, scalar: done once per weight at load, and for single rows by embed.
#pragma once

#include <cstddef>

#include "kernels/cpu/pack_layout.h"

namespace quern {

// Packs `num_rows` (1 … 16) source rows of `cols` elements into one panel of panel_bytes(dtype, cols) bytes. The dtype
// has a packed form; the target is overwritten.
void pack_panel(DType dtype, const std::byte* const* rows, int64_t num_rows, int64_t cols, std::byte* panel);

size_t panel_bytes(DType dtype, int64_t cols);

// Row `row` of a panel as floats, bit for bit what dequantize gives for the source row.
void unpack_panel_row(DType dtype, const std::byte* panel, int64_t row, int64_t cols, float* target);

}  // namespace quern
