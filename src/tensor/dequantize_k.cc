// The K types: 256 elements with small integer scales per 16 or 32, themselves scaled by one or two float16.
#include <array>

#include "tensor/block_codec.h"
#include "tensor/dequantize.h"

namespace quern::blocks {

// { (scale | min << 4)[16], crumbs[64], f16 d, f16 dmin }: sub-blocks of 16. In each half of 128 elements, crumb n of
// byte m is element 32n + m. Value: d·scale·q − dmin·min.
void dequantize_q2_k(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block + 80));
  const float dmin = f16_to_f32(load_u16(block + 82));
  for (int sub = 0; sub < 16; ++sub) {
    const float scale = d * static_cast<float>(block[sub] & 15);
    const float min = dmin * static_cast<float>(block[sub] >> 4);
    const uint8_t* crumbs = block + 16 + 32 * (sub / 8) + 16 * (sub % 2);
    const int shift = 2 * (sub / 2 % 4);
    for (int i = 0; i < 16; ++i) target[16 * sub + i] = scale * static_cast<float>((crumbs[i] >> shift) & 3) - min;
  }
}

// { high bits[32], crumbs[64], scales[12], f16 d }: sub-blocks of 16, crumbs as in Q2_K; bit n of high byte m belongs
// to element 32n + m, of both halves together. Scale i of six bits: low nibble in byte i % 8 (low half for i < 8), high
// two bits in byte 8 + i % 4, at 2·(i / 4). Value: d·(scale − 32)·(q − 4), q of three bits.
void dequantize_q3_k(const uint8_t* block, float* target) {
  const uint8_t* packed = block + 96;
  const float d = f16_to_f32(load_u16(block + 108));
  for (int sub = 0; sub < 16; ++sub) {
    const int low = (packed[sub % 8] >> (4 * (sub / 8))) & 15;
    const int high = (packed[8 + sub % 4] >> (2 * (sub / 4))) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    const uint8_t* crumbs = block + 32 + 32 * (sub / 8) + 16 * (sub % 2);
    const uint8_t* high_bits = block + 16 * (sub % 2);
    const int shift = 2 * (sub / 2 % 4);
    for (int i = 0; i < 16; ++i) {
      const int top = (high_bits[i] >> (sub / 2)) & 1;
      target[16 * sub + i] = scale * static_cast<float>(((crumbs[i] >> shift) & 3) - (top != 0 ? 0 : 4));
    }
  }
}

// { f16 d, f16 dmin, scales and minima[12], nibbles[128] }: sub-blocks of 32; of each 32 bytes the low nibbles are one
// sub-block and the high ones the next. Value: d·scale·q − dmin·min.
void dequantize_q4_k(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  const float dmin = f16_to_f32(load_u16(block + 2));
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = unpack_scale_min(block + 4, sub);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    const uint8_t* nibbles = block + 16 + 32 * (sub / 2);
    const int shift = 4 * (sub % 2);
    for (int i = 0; i < 32; ++i) target[32 * sub + i] = scale * static_cast<float>((nibbles[i] >> shift) & 15) - min;
  }
}

// { f16 d, f16 dmin, scales and minima[12], fifth bits[32], nibbles[128] }: as Q4_K; bit n of fifth byte m belongs to
// element 32n + m.
void dequantize_q5_k(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  const float dmin = f16_to_f32(load_u16(block + 2));
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleMin packed = unpack_scale_min(block + 4, sub);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    const uint8_t* fifth = block + 16;
    const uint8_t* nibbles = block + 48 + 32 * (sub / 2);
    const int shift = 4 * (sub % 2);
    for (int i = 0; i < 32; ++i) {
      const int q = ((nibbles[i] >> shift) & 15) | (((fifth[i] >> sub) & 1) << 4);
      target[32 * sub + i] = scale * static_cast<float>(q) - min;
    }
  }
}

// { low nibbles[128], high crumbs[64], i8 scales[16], f16 d }: sub-blocks of 16. In each half of 128 elements, element
// e = 32n + m has its low nibble in byte m + 32·(n % 2), the low half for n < 2, and its high crumb n in byte m. Value:
// d·scale·(q − 32).
void dequantize_q6_k(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block + 208));
  for (int sub = 0; sub < 16; ++sub) {
    const int half = sub / 8;
    const int n = sub / 2 % 4;
    const uint8_t* low = block + 64 * half + 32 * (n % 2) + 16 * (sub % 2);
    const uint8_t* high = block + 128 + 32 * half + 16 * (sub % 2);
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + sub]));
    for (int i = 0; i < 16; ++i) {
      const int q = ((low[i] >> (4 * (n / 2))) & 15) | (((high[i] >> (2 * n)) & 3) << 4);
      target[16 * sub + i] = scale * static_cast<float>(q - 32);
    }
  }
}

}  // namespace quern::blocks
