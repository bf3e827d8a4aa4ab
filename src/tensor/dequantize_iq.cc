// The I types: an index picks a codebook entry of 4 or 8 magnitudes, signs and scales stand beside it.
#include <bit>

#include "tensor/block_codec.h"
#include "tensor/dequantize.h"
#include "tensor/iq_codebooks.h"

namespace quern::blocks {
namespace {

// Eight sign bits from seven: the eighth makes the number of minus signs even.
uint8_t even_signs(uint32_t seven) {
  seven &= 127;
  return static_cast<uint8_t>(seven | (static_cast<uint32_t>(std::popcount(seven) & 1) << 7));
}

// `components` values from one entry; bit j of signs negates component j.
template <size_t components>
void put_entry(const std::array<int8_t, components>& entry, uint32_t signs, float scale, float* target) {
  for (size_t j = 0; j < components; ++j) {
    const float magnitude = scale * static_cast<float>(entry[j]);
    target[j] = ((signs >> j) & 1u) != 0 ? -magnitude : magnitude;
  }
}

// Eight ternary values, shifted by ±1/8 (Q1: the shift's sign stands in the block).
void put_ternary(const std::array<int8_t, 8>& entry, float shift, float scale, float* target) {
  for (size_t j = 0; j < 8; ++j) target[j] = scale * (static_cast<float>(entry[j]) + shift);
}

constexpr float kIq1Shift = 0.125f;

float iq2_scale(float d, int four_bits) {
  return d * (0.5f + static_cast<float>(four_bits)) * 0.25f;
}

}  // namespace

// { f16 d, low index bits[32], u16[8] }: per 32 elements a word with 4 × 3 high index bits, 3 bits of scale, sign of
// the shift.
void dequantize_iq1_s(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int part = 0; part < 8; ++part) {
    const int word = load_u16(block + 34 + 2 * part);
    const float scale = d * static_cast<float>(2 * ((word >> 12) & 7) + 1);
    const float shift = (word & 0x8000) != 0 ? -kIq1Shift : kIq1Shift;
    for (int l = 0; l < 4; ++l) {
      const int index = block[2 + 4 * part + l] | (((word >> (3 * l)) & 7) << 8);
      put_ternary(kIq1Book[static_cast<size_t>(index)], shift, scale, target + 32 * part + 8 * l);
    }
  }
}

// { low index bits[32], nibbles[16], u16[4] }: nibble = 3 high index bits and the sign of the shift; a word holds four
// scales of three bits for 16 elements each and, in its top four bits, a quarter of the float16 d.
void dequantize_iq1_m(const uint8_t* block, float* target) {
  uint32_t d_bits = 0;
  for (int i = 0; i < 4; ++i) d_bits |= static_cast<uint32_t>(load_u16(block + 48 + 2 * i) >> 12) << (4 * i);
  const float d = f16_to_f32(static_cast<uint16_t>(d_bits));
  for (int group = 0; group < 32; ++group) {
    const int sixteen = group / 2;
    const int word = load_u16(block + 48 + 2 * (sixteen / 4));
    const float scale = d * static_cast<float>(2 * ((word >> (3 * (sixteen % 4))) & 7) + 1);
    const int nibble = (block[32 + group / 2] >> (4 * (group % 2))) & 15;
    const int index = block[group] | ((nibble & 7) << 8);
    put_ternary(kIq1Book[static_cast<size_t>(index)], (nibble & 8) != 0 ? -kIq1Shift : kIq1Shift, scale,
                target + 8 * group);
  }
}

// { f16 d, { index[4], u32 }[8] }: the word has 4 × 7 sign bits and a scale of four bits on top.
void dequantize_iq2_xxs(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int part = 0; part < 8; ++part) {
    const uint8_t* from = block + 2 + 8 * part;
    const uint32_t word = load_u32(from + 4);
    const float scale = iq2_scale(d, static_cast<int>(word >> 28));
    for (int l = 0; l < 4; ++l) {
      put_entry(kIq2XxsBook[from[l]], even_signs(word >> (7 * l)), scale, target + 32 * part + 8 * l);
    }
  }
}

// { f16 d, u16[32], scale nibbles[8] }: a word is nine bits of index and seven of signs; a scale serves 16 elements.
void dequantize_iq2_xs(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int group = 0; group < 32; ++group) {
    const uint32_t word = load_u16(block + 2 + 2 * group);
    const float scale = iq2_scale(d, (block[66 + group / 4] >> (4 * (group / 2 % 2))) & 15);
    put_entry(kIq2XsBook[word & 511], even_signs(word >> 9), scale, target + 8 * group);
  }
}

// { f16 d, low index bits[32], signs[32], high index crumbs[8], scale nibbles[8] }
void dequantize_iq2_s(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int group = 0; group < 32; ++group) {
    const int high = (block[66 + group / 4] >> (2 * (group % 4))) & 3;
    const int index = block[2 + group] | (high << 8);
    const float scale = iq2_scale(d, (block[74 + group / 4] >> (4 * (group / 2 % 2))) & 15);
    put_entry(kIq2SBook[static_cast<size_t>(index)], block[34 + group], scale, target + 8 * group);
  }
}

// { f16 d, index[64], u32[8] }: an index is four elements; the words as in IQ2_XXS.
void dequantize_iq3_xxs(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int group = 0; group < 32; ++group) {
    const uint32_t word = load_u32(block + 66 + 4 * (group / 4));
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const uint32_t signs = even_signs(word >> (7 * (group % 4)));
    put_entry(kIq3XxsBook[block[2 + 2 * group]], signs, scale, target + 8 * group);
    put_entry(kIq3XxsBook[block[3 + 2 * group]], signs >> 4, scale, target + 8 * group + 4);
  }
}

// { f16 d, low index bits[64], ninth index bits[8], signs[32], scale nibbles[4] }: an index is four elements, a
// scale 32.
void dequantize_iq3_s(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int quad = 0; quad < 64; ++quad) {
    const int part = quad / 8;
    const int index = block[2 + quad] | (((block[66 + part] >> (quad % 8)) & 1) << 8);
    const float scale = d * static_cast<float>(1 + 2 * ((block[106 + part / 2] >> (4 * (part % 2))) & 15));
    const uint32_t signs = block[74 + quad / 2];
    put_entry(kIq3SBook[static_cast<size_t>(index)], signs >> (4 * (quad % 2)), scale, target + 4 * quad);
  }
}

// { f16 d, u16 high scale crumbs, low scale nibbles[4], nibbles[8][16] }: per 32 elements 16 bytes as in IQ4_NL.
// Value: d·(scale − 32)·level, scale of six bits.
void dequantize_iq4_xs(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  const int high = load_u16(block + 2);
  for (int part = 0; part < 8; ++part) {
    const int low = (block[4 + part / 2] >> (4 * (part % 2))) & 15;
    const float scale = d * static_cast<float>((low | (((high >> (2 * part)) & 3) << 4)) - 32);
    for (int i = 0; i < 16; ++i) {
      const int byte = block[8 + 16 * part + i];
      target[32 * part + i] = scale * static_cast<float>(kIq4Levels[byte & 15]);
      target[32 * part + i + 16] = scale * static_cast<float>(kIq4Levels[byte >> 4]);
    }
  }
}

}  // namespace quern::blocks
