// One block of each quantised type, to and from float32. The layouts stand beside the functions that read them; sizes
// in the table of dtype.cc. Offsets in layouts are bytes, numbers little-endian, [n] repeats.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/dequantize.h"

namespace quern::blocks {

static_assert(std::endian::native == std::endian::little, "blocks are read as they stand");

inline uint16_t load_u16(const uint8_t* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline uint32_t load_u32(const uint8_t* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline void store_u16(uint16_t value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(value));
}
inline void store_u32(uint32_t value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Scale (six bits) and minimum (six bits) of sub-block 0 … 7, packed in 12 bytes of Q4_K and Q5_K:
// bytes 0–3 scales 0–3, bytes 4–7 minima 0–3, both with their low six bits; bytes 8–11 the low nibbles of scale and
// minimum 4–7; their high two bits are the top bits of bytes 0–3 and 4–7.
struct ScaleMin {
  uint8_t scale = 0, min = 0;
};
inline ScaleMin unpack_scale_min(const uint8_t* packed, int index) {
  if (index < 4) return {static_cast<uint8_t>(packed[index] & 63), static_cast<uint8_t>(packed[index + 4] & 63)};
  const int low = packed[index + 4];
  return {static_cast<uint8_t>((low & 15) | ((packed[index - 4] >> 6) << 4)),
          static_cast<uint8_t>((low >> 4) | ((packed[index] >> 6) << 4))};
}

void dequantize_q1_0(const uint8_t* block, float* target);  // 128
void dequantize_q2_0(const uint8_t* block, float* target);  // 64
void dequantize_q4_0(const uint8_t* block, float* target);  // 32
void dequantize_q4_1(const uint8_t* block, float* target);
void dequantize_q5_0(const uint8_t* block, float* target);
void dequantize_q5_1(const uint8_t* block, float* target);
void dequantize_q8_0(const uint8_t* block, float* target);
void dequantize_mxfp4(const uint8_t* block, float* target);
void dequantize_iq4_nl(const uint8_t* block, float* target);
void dequantize_nvfp4(const uint8_t* block, float* target);  // 64
void dequantize_q2_k(const uint8_t* block, float* target);   // 256 from here on
void dequantize_q3_k(const uint8_t* block, float* target);
void dequantize_q4_k(const uint8_t* block, float* target);
void dequantize_q5_k(const uint8_t* block, float* target);
void dequantize_q6_k(const uint8_t* block, float* target);
void dequantize_iq1_s(const uint8_t* block, float* target);
void dequantize_iq1_m(const uint8_t* block, float* target);
void dequantize_iq2_xxs(const uint8_t* block, float* target);
void dequantize_iq2_xs(const uint8_t* block, float* target);
void dequantize_iq2_s(const uint8_t* block, float* target);
void dequantize_iq3_xxs(const uint8_t* block, float* target);
void dequantize_iq3_s(const uint8_t* block, float* target);
void dequantize_iq4_xs(const uint8_t* block, float* target);
void dequantize_tq1_0(const uint8_t* block, float* target);
void dequantize_tq2_0(const uint8_t* block, float* target);

// The inverse. `source` is finite. False when a scale is over the range of its field; the block is then unspecified.
bool quantize_q4_0(const float* source, uint8_t* block);
bool quantize_q4_1(const float* source, uint8_t* block);
bool quantize_q5_0(const float* source, uint8_t* block);
bool quantize_q5_1(const float* source, uint8_t* block);
bool quantize_q8_0(const float* source, uint8_t* block);
bool quantize_mxfp4(const float* source, uint8_t* block);
bool quantize_tq1_0(const float* source, uint8_t* block);
bool quantize_tq2_0(const float* source, uint8_t* block);
bool quantize_q4_k(const float* source, uint8_t* block);
bool quantize_q5_k(const float* source, uint8_t* block);
bool quantize_q6_k(const float* source, uint8_t* block);

// E2M1 of the OCP Microscaling Formats specification, doubled so that all are integers. Sign in the top bit.
inline constexpr std::array<int8_t, 16> kTwiceE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Half of the E8M0 scale 2^(exponent - 127), to go with kTwiceE2M1. Subnormal for the smallest.
inline float half_of_e8m0(uint8_t exponent) {
  return std::ldexp(1.0f, exponent - 128);
}

// Stores `scale` as float16. False when it rounds to infinity.
inline bool store_scale(float scale, uint8_t* to) {
  const uint16_t bits = f32_to_f16(scale);
  store_u16(bits, to);
  return (bits & 0x7fffu) < 0x7c00u;
}

// 1 / scale, or 0 where that would not be finite: such a scale is zero in float16 anyway.
inline float inverse_scale(float scale) {
  return std::fabs(scale) < std::numeric_limits<float>::min() ? 0.0f : 1.0f / scale;
}

}  // namespace quern::blocks
