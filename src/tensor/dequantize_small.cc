// Types with one or two scales per block of 32 to 128 elements, and the ternary ones.
#include <array>
#include <cmath>

#include "tensor/block_codec.h"
#include "tensor/dequantize.h"
#include "tensor/iq_codebooks.h"

namespace quern::blocks {
namespace {

// Half of a scale in unsigned E4M3; the code that is NaN in E4M3 counts as zero, as in ggml.
float half_of_ue4m3(uint8_t bits) {
  return bits == 0x7f ? 0.0f : 0.5f * f8e4m3_to_f32(bits);
}

}  // namespace

// { f16 scale, bits[16] }: bit i is the sign of element i, 1 positive.
void dequantize_q1_0(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int i = 0; i < 128; ++i) target[i] = ((block[2 + i / 8] >> (i % 8)) & 1) != 0 ? d : -d;
}

// { f16 scale, crumbs[16] }: two bits per element, in order, lowest first; 0 … 3 stand for -1 … 2.
void dequantize_q2_0(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int i = 0; i < 64; ++i) target[i] = static_cast<float>(((block[2 + i / 4] >> (2 * (i % 4))) & 3) - 1) * d;
}

// { f16 scale, nibbles[16] }: low nibbles are elements 0–15, high ones 16–31, as in all types with nibbles of 32 below.
void dequantize_q4_0(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int i = 0; i < 16; ++i) {
    const int byte = block[2 + i];
    target[i] = static_cast<float>((byte & 15) - 8) * d;
    target[i + 16] = static_cast<float>((byte >> 4) - 8) * d;
  }
}

// { f16 scale, f16 min, nibbles[16] }
void dequantize_q4_1(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  const float m = f16_to_f32(load_u16(block + 2));
  for (int i = 0; i < 16; ++i) {
    const int byte = block[4 + i];
    target[i] = static_cast<float>(byte & 15) * d + m;
    target[i + 16] = static_cast<float>(byte >> 4) * d + m;
  }
}

// { f16 scale, u32 fifth bits (bit i of element i), nibbles[16] }
void dequantize_q5_0(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  const uint32_t fifth = load_u32(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[6 + i];
    const auto high0 = static_cast<int>((fifth >> i) & 1u) << 4;
    const auto high1 = static_cast<int>((fifth >> (i + 16)) & 1u) << 4;
    target[i] = static_cast<float>(((byte & 15) | high0) - 16) * d;
    target[i + 16] = static_cast<float>(((byte >> 4) | high1) - 16) * d;
  }
}

// { f16 scale, f16 min, u32 fifth bits, nibbles[16] }
void dequantize_q5_1(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  const float m = f16_to_f32(load_u16(block + 2));
  const uint32_t fifth = load_u32(block + 4);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[8 + i];
    const auto high0 = static_cast<int>((fifth >> i) & 1u) << 4;
    const auto high1 = static_cast<int>((fifth >> (i + 16)) & 1u) << 4;
    target[i] = static_cast<float>((byte & 15) | high0) * d + m;
    target[i + 16] = static_cast<float>((byte >> 4) | high1) * d + m;
  }
}

// { f16 scale, i8[32] }
void dequantize_q8_0(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int i = 0; i < 32; ++i) target[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}

// { e8m0 scale, nibbles[16] }: OCP MXFP4.
void dequantize_mxfp4(const uint8_t* block, float* target) {
  const float d = half_of_e8m0(block[0]);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[1 + i];
    target[i] = static_cast<float>(kTwiceE2M1[byte & 15]) * d;
    target[i + 16] = static_cast<float>(kTwiceE2M1[byte >> 4]) * d;
  }
}

// { f16 scale, nibbles[16] }: codes of kIq4Levels.
void dequantize_iq4_nl(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block));
  for (int i = 0; i < 16; ++i) {
    const int byte = block[2 + i];
    target[i] = d * static_cast<float>(kIq4Levels[byte & 15]);
    target[i + 16] = d * static_cast<float>(kIq4Levels[byte >> 4]);
  }
}

// { ue4m3 scales[4], nibbles[4][8] }: four sub-blocks of 16 elements.
void dequantize_nvfp4(const uint8_t* block, float* target) {
  for (int sub = 0; sub < 4; ++sub) {
    const float d = half_of_ue4m3(block[sub]);
    for (int i = 0; i < 8; ++i) {
      const int byte = block[4 + 8 * sub + i];
      target[16 * sub + i] = static_cast<float>(kTwiceE2M1[byte & 15]) * d;
      target[16 * sub + i + 8] = static_cast<float>(kTwiceE2M1[byte >> 4]) * d;
    }
  }
}

// { digits[48], digits[4], f16 scale }: a byte holds five base-3 digits (four in the last group), most significant
// first, as the fraction byte/256: multiplying by 3^n and taking the top of the next tripling yields digit n. Bytes
// 0–31 hold elements 0–159 (digit n of byte m is element 32n + m), bytes 32–47 elements 160–239, the last four 240–255.
void dequantize_tq1_0(const uint8_t* block, float* target) {
  struct Group {
    int begin, bytes, digits;
  };
  constexpr std::array<Group, 3> kGroups = {{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}}};
  const float d = f16_to_f32(load_u16(block + 52));
  for (const Group& group : kGroups) {
    uint8_t power = 1;
    for (int n = 0; n < group.digits; ++n, power *= 3) {
      for (int m = 0; m < group.bytes; ++m) {
        const auto fraction = static_cast<uint8_t>(block[group.begin + m] * power);
        *target++ = static_cast<float>(((fraction * 3) >> 8) - 1) * d;
      }
    }
  }
}

// { crumbs[64], f16 scale }: in each half of 32 bytes, crumb n of byte m is element 32n + m; 0, 1, 2 stand for -1,
// 0, 1.
void dequantize_tq2_0(const uint8_t* block, float* target) {
  const float d = f16_to_f32(load_u16(block + 64));
  for (int i = 0; i < 256; ++i) {
    const int byte = block[32 * (i / 128) + i % 32];
    target[i] = static_cast<float>(((byte >> (2 * (i / 32 % 4))) & 3) - 1) * d;
  }
}

}  // namespace quern::blocks
