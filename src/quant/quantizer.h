// Rounds rows of floating weights to the types that weights are held in after quantisation at load. The same bits as
// tensor/dequantize.h, quantize() (and so as ggml's reference quantisers), but written for vectors: half a billion
// weights take about a second of one core.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quern/status.h"
#include "tensor/dtype.h"

namespace quern {

// F16, Q8_0, Q4_0, Q4_1.
bool is_rounding_target(DType dtype);
// F32, F16, BF16, F64 and the 8-bit floats.
bool is_rounding_source(DType dtype);

// One row of `cols` elements, a multiple of `to`'s block. `scratch` holds `cols` floats, `target` dtype_bytes(to, cols)
// bytes. kInvalidArgument names an element that is not finite, or the block that is over the range of the type; the
// target is then unspecified.
Status round_row(DType from, const std::byte* source, DType to, int64_t cols, float* scratch, std::byte* target);

}  // namespace quern
