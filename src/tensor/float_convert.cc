#include <bit>
#include <cmath>

#include "tensor/dequantize.h"

namespace quern {

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction × 2^-24 is exact in float32
    return (sign != 0 ? -0x1p-24f : 0x1p-24f) * static_cast<float>(fraction);
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (fraction << 13));
}

uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kInfinity = 0x7f800000u;
  constexpr uint32_t kOverflow = 0x477ff000u;        // 65520: the first that rounds to 2^16
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  if (magnitude > kInfinity) return sign | 0x7e00u | static_cast<uint16_t>((magnitude >> 13) & 0x3ffu);
  if (magnitude >= kOverflow) return sign | 0x7c00u;
  if (magnitude >= kSmallestNormal) {
    // Rebias the exponent, then round the 13 bits that go: half to even. A carry into the exponent is right as it is.
    const uint32_t rebased = magnitude - ((127u - 15u) << 23);
    return sign | static_cast<uint16_t>((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13);
  }
  // Subnormal: a multiple of 2^-24. Scaling by a power of two is exact, so only nearbyint (half to even) rounds.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
  return sign | static_cast<uint16_t>(std::nearbyint(scaled));
}

float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // a NaN stays one
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f8e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t exponent = (bits >> 3) & 15u;
  const uint32_t fraction = bits & 7u;
  if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) return (sign != 0 ? -0x1p-9f : 0x1p-9f) * static_cast<float>(fraction);
  return std::bit_cast<float>(sign | ((exponent + (127 - 7)) << 23) | (fraction << 20));
}

float f8e5m2_to_f32(uint8_t bits) {
  return f16_to_f32(static_cast<uint16_t>(bits << 8));
}

}  // namespace quern
