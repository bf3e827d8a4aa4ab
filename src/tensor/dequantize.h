// The plain reference: bytes of any floating or quantised type to float32. Bit-exact to the format's definition.
#pragma once

#include <cstddef>
#include <span>

#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// `elements` must be a multiple of the type's block and `source` must hold exactly that many (checked in debug).
// Integer types convert by value. Thread-safe.
void dequantize(DType dtype, const std::byte* source, float* target, int64_t elements);

// The inverse for the types our writers offer: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, TQ1_0,
// TQ2_0, MXFP4. Others: kUnsupported. `elements` as above; `target` has dtype_bytes(dtype, elements) bytes. A NaN or
// infinity in `source` is kInvalidArgument.
Status quantize(DType dtype, const float* source, std::byte* target, int64_t elements);

// Scalars, exact in both directions (round to nearest even).
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
float f8e4m3_to_f32(uint8_t bits);  // OCP E4M3: no infinity, 0x7f and 0xff are NaN
float f8e5m2_to_f32(uint8_t bits);  // OCP E5M2: the upper half of a float16

}  // namespace quern
