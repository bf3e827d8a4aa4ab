// Rounding to the types of one or two scales per block. Where several roundings are possible they follow ggml's
// reference quantiser, so that the same floats give the same bytes.
#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/block_codec.h"

namespace quern::blocks {
namespace {

// The element of largest magnitude, with its sign; the first one wins.
float signed_peak(const float* source, int count) {
  float peak = 0;
  for (int i = 0; i < count; ++i) {
    if (std::fabs(source[i]) > std::fabs(peak)) peak = source[i];
  }
  return peak;
}

struct Range {
  float min, max;
};
// The first of equals: zeros have two signs, and a scale keeps them.
Range range_of(const float* source, int count) {
  return {*std::min_element(source, source + count), *std::max_element(source, source + count)};
}

// Rounds a number that is not below -0.5 half up, and keeps it to `top`.
int round_up_to(float value, int top) {
  return std::min(top, static_cast<int>(value + 0.5f));
}

// Low nibbles of the first half, high nibbles of the second, and the fifth bits: what Q5 stores of 32 codes.
void store_five_bits(const std::array<int, 32>& codes, uint8_t* fifth, uint8_t* nibbles) {
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(codes[static_cast<size_t>(i)] >> 4) << i;
  store_u32(high, fifth);
  for (size_t i = 0; i < 16; ++i) nibbles[i] = static_cast<uint8_t>((codes[i] & 15) | ((codes[i + 16] & 15) << 4));
}

int ternary(float value, float inverse) {
  return static_cast<int>(std::lround(value * inverse)) + 1;
}

}  // namespace

bool quantize_q4_0(const float* source, uint8_t* block) {
  const float d = signed_peak(source, 32) / -8;
  if (!store_scale(d, block)) return false;
  const float inverse = inverse_scale(d);
  for (int i = 0; i < 16; ++i) {
    const int low = round_up_to(source[i] * inverse + 8.0f, 15);
    const int high = round_up_to(source[i + 16] * inverse + 8.0f, 15);
    block[2 + i] = static_cast<uint8_t>(low | (high << 4));
  }
  return true;
}

bool quantize_q4_1(const float* source, uint8_t* block) {
  const auto [min, max] = range_of(source, 32);
  const float d = (max - min) / 15;
  if (!store_scale(d, block) || !store_scale(min, block + 2)) return false;
  const float inverse = inverse_scale(d);
  for (int i = 0; i < 16; ++i) {
    const int low = round_up_to((source[i] - min) * inverse, 15);
    const int high = round_up_to((source[i + 16] - min) * inverse, 15);
    block[4 + i] = static_cast<uint8_t>(low | (high << 4));
  }
  return true;
}

bool quantize_q5_0(const float* source, uint8_t* block) {
  const float d = signed_peak(source, 32) / -16;
  if (!store_scale(d, block)) return false;
  const float inverse = inverse_scale(d);
  std::array<int, 32> codes;
  for (size_t i = 0; i < 32; ++i) codes[i] = round_up_to(source[i] * inverse + 16.0f, 31);
  store_five_bits(codes, block + 2, block + 6);
  return true;
}

bool quantize_q5_1(const float* source, uint8_t* block) {
  const auto [min, max] = range_of(source, 32);
  const float d = (max - min) / 31;
  if (!store_scale(d, block) || !store_scale(min, block + 2)) return false;
  const float inverse = inverse_scale(d);
  std::array<int, 32> codes;
  for (size_t i = 0; i < 32; ++i) codes[i] = round_up_to((source[i] - min) * inverse, 31);
  store_five_bits(codes, block + 4, block + 8);
  return true;
}

bool quantize_q8_0(const float* source, uint8_t* block) {
  const float d = std::fabs(signed_peak(source, 32)) / 127;
  if (!store_scale(d, block)) return false;
  const float inverse = inverse_scale(d);
  for (int i = 0; i < 32; ++i) {
    const int code = std::clamp(static_cast<int>(std::round(source[i] * inverse)), -127, 127);
    block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(code));
  }
  return true;
}

// The scale is the largest power of two that keeps the peak's exponent within that of 6, the largest E2M1 value (OCP
// Microscaling Formats, section 6.3).
bool quantize_mxfp4(const float* source, uint8_t* block) {
  const float peak = std::fabs(signed_peak(source, 32));
  block[0] = peak > 0 ? static_cast<uint8_t>(std::max(0, std::ilogb(peak) - 2 + 127)) : 0;
  const float d = half_of_e8m0(block[0]);
  const auto nearest = [d](float value) {
    size_t best = 0;
    for (size_t code = 1; code < kTwiceE2M1.size(); ++code) {
      if (std::fabs(static_cast<float>(kTwiceE2M1[code]) * d - value) <
          std::fabs(static_cast<float>(kTwiceE2M1[best]) * d - value)) {
        best = code;
      }
    }
    return static_cast<uint8_t>(best);
  };
  for (int i = 0; i < 16; ++i) block[1 + i] = static_cast<uint8_t>(nearest(source[i]) | (nearest(source[i + 16]) << 4));
  return true;
}

bool quantize_tq1_0(const float* source, uint8_t* block) {
  struct Group {
    int begin, bytes, digits;
  };
  constexpr std::array<Group, 3> kGroups = {{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}}};
  const float d = std::fabs(signed_peak(source, 256));
  if (!store_scale(d, block + 52)) return false;
  const float inverse = inverse_scale(d);
  for (const Group& group : kGroups) {
    for (int m = 0; m < group.bytes; ++m) {
      int number = 0;  // of five digits; the last group's fifth is 0
      for (int n = 0; n < 5; ++n)
        number = number * 3 + (n < group.digits ? ternary(source[n * group.bytes + m], inverse) : 0);
      block[group.begin + m] =
          static_cast<uint8_t>((number * 256 + 242) / 243);  // rounded up, so that truncation recovers the digits
    }
    source += group.bytes * group.digits;
  }
  return true;
}

bool quantize_tq2_0(const float* source, uint8_t* block) {
  const float d = std::fabs(signed_peak(source, 256));
  if (!store_scale(d, block + 64)) return false;
  const float inverse = inverse_scale(d);
  std::fill_n(block, 64, uint8_t{0});
  for (int i = 0; i < 256; ++i) {
    block[32 * (i / 128) + i % 32] |= static_cast<uint8_t>(ternary(source[i], inverse) << (2 * (i / 32 % 4)));
  }
  return true;
}

}  // namespace quern::blocks
