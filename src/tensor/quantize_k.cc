// Rounding to Q4_K, Q5_K and Q6_K. Each sub-block is fitted alone: for a fan of trial scales the codes are rounded, the
// scale (and minimum) that suits these codes best follows by least squares, and the trial of least squared error is
// kept. Then the fitted scales are rounded to their own few bits and the codes once more to what these give.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensor/block_codec.h"

namespace quern::blocks {
namespace {

// Below this a sub-block is zero: no float16 scale could hold it, and 1 / peak stays finite.
constexpr float kNegligible = 1e-20f;

// Nearest integer, half to even. |value| < 2^22: then adding 1.5·2^23 leaves the integer in the low bits of the sum.
int nearest_int(float value) {
  return static_cast<int>(std::bit_cast<uint32_t>(value + 0x1.8p23f) & 0x7fffffu) - 0x400000;
}

int nearest_clamped(float value, float low, float high) {
  return nearest_int(std::clamp(value, low, high));
}

// x ≈ scale·q + offset with q in [0, top] and offset <= 0.
struct AffineFit {
  float scale = 0, offset = 0;
};

// Best scale and offset for given codes; false when the codes do not determine them.
bool solve_affine(const float* x, const std::array<int, 32>& codes, AffineFit& fit, double& error) {
  double sum_q = 0, sum_qq = 0, sum_x = 0, sum_xq = 0, sum_xx = 0;
  for (size_t i = 0; i < 32; ++i) {
    const double q = codes[i];
    const double value = x[i];
    sum_q += q;
    sum_qq += q * q;
    sum_x += value;
    sum_xq += value * q;
    sum_xx += value * value;
  }
  const double determinant = 32 * sum_qq - sum_q * sum_q;
  if (determinant <= 0) return false;
  double scale = (32 * sum_xq - sum_q * sum_x) / determinant;
  double offset = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
  if (offset > 0) {  // the format subtracts its minimum
    offset = 0;
    scale = sum_xq / sum_qq;
  }
  if (scale <= 0) return false;
  error = sum_xx + scale * scale * sum_qq + 32 * offset * offset - 2 * scale * sum_xq - 2 * offset * sum_x +
          2 * scale * offset * sum_q;
  fit = {static_cast<float>(scale), static_cast<float>(offset)};
  return true;
}

AffineFit fit_affine(const float* x, int top) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float min = std::min(*low, 0.0f);
  const float width = *high - min;
  if (!(width > kNegligible)) return {0, min};
  const auto limit = static_cast<float>(top);
  AffineFit best{width / limit, min};
  double best_error = std::numeric_limits<double>::infinity();
  for (int trial = -10; trial <= 10; ++trial) {
    const float inverse = (limit + 0.1f * static_cast<float>(trial)) / width;
    std::array<int, 32> codes;
    for (size_t i = 0; i < 32; ++i) codes[i] = nearest_clamped((x[i] - min) * inverse, 0, limit);
    AffineFit fit;
    double error = 0;
    if (solve_affine(x, codes, fit, error) && error < best_error) {
      best = fit;
      best_error = error;
    }
  }
  return best;
}

// The inverse of unpack_scale_min.
void pack_scale_min(const std::array<ScaleMin, 8>& parts, uint8_t* packed) {
  for (size_t i = 0; i < 4; ++i) {
    const ScaleMin& high = parts[i + 4];
    packed[i] = static_cast<uint8_t>(parts[i].scale | ((high.scale >> 4) << 6));
    packed[i + 4] = static_cast<uint8_t>(parts[i].min | ((high.min >> 4) << 6));
    packed[i + 8] = static_cast<uint8_t>((high.scale & 15) | ((high.min & 15) << 4));
  }
}

// Common part of Q4_K and Q5_K: writes d, dmin and the packed scales (16 bytes) and gives the codes, 0 … top.
bool quantize_affine(const float* source, int top, uint8_t* head, std::array<uint8_t, 256>& codes) {
  std::array<AffineFit, 8> fits;
  float scale_max = 0, min_max = 0;
  for (size_t sub = 0; sub < 8; ++sub) {
    fits[sub] = fit_affine(source + 32 * sub, top);
    scale_max = std::max(scale_max, fits[sub].scale);
    min_max = std::max(min_max, -fits[sub].offset);
  }
  if (!store_scale(scale_max / 63, head) || !store_scale(min_max / 63, head + 2)) return false;
  const float d = f16_to_f32(load_u16(head));
  const float dmin = f16_to_f32(load_u16(head + 2));
  const float d_inverse = inverse_scale(d);
  const float dmin_inverse = inverse_scale(dmin);
  std::array<ScaleMin, 8> parts;
  for (size_t sub = 0; sub < 8; ++sub) {
    parts[sub].scale = static_cast<uint8_t>(nearest_clamped(fits[sub].scale * d_inverse, 0, 63));
    parts[sub].min = static_cast<uint8_t>(nearest_clamped(-fits[sub].offset * dmin_inverse, 0, 63));
    const float inverse = inverse_scale(d * static_cast<float>(parts[sub].scale));
    const float min = dmin * static_cast<float>(parts[sub].min);
    for (size_t i = 32 * sub; i < 32 * (sub + 1); ++i) {
      codes[i] = static_cast<uint8_t>(nearest_clamped((source[i] + min) * inverse, 0, static_cast<float>(top)));
    }
  }
  pack_scale_min(parts, head + 4);
  return true;
}

// Of each 64 codes the low nibbles: the first 32 in low, the others in high nibbles.
void store_nibbles(const std::array<uint8_t, 256>& codes, uint8_t* nibbles) {
  for (size_t i = 0; i < 128; ++i) {
    const size_t first = 64 * (i / 32) + i % 32;
    nibbles[i] = static_cast<uint8_t>((codes[first] & 15) | ((codes[first + 32] & 15) << 4));
  }
}

// x ≈ scale·q with q in [-32, 31].
float fit_symmetric(const float* x) {
  float peak = 0;
  for (int i = 0; i < 16; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  if (!(std::fabs(peak) > kNegligible)) return 0;
  double best_gain = 0;  // how much of the squared sum the fit explains
  float best_scale = 0;
  for (int trial = -9; trial <= 9; ++trial) {
    const float inverse = -(32.0f + 0.1f * static_cast<float>(trial)) / peak;
    double sum_xq = 0, sum_qq = 0;
    for (int i = 0; i < 16; ++i) {
      const double q = nearest_clamped(x[i] * inverse, -32, 31);
      sum_xq += static_cast<double>(x[i]) * q;
      sum_qq += q * q;
    }
    const double gain = sum_xq * sum_xq / sum_qq;  // the peak's code is not 0
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = static_cast<float>(sum_xq / sum_qq);
    }
  }
  return best_scale;
}

}  // namespace

bool quantize_q4_k(const float* source, uint8_t* block) {
  std::array<uint8_t, 256> codes;
  if (!quantize_affine(source, 15, block, codes)) return false;
  store_nibbles(codes, block + 16);
  return true;
}

bool quantize_q5_k(const float* source, uint8_t* block) {
  std::array<uint8_t, 256> codes;
  if (!quantize_affine(source, 31, block, codes)) return false;
  std::fill_n(block + 16, 32, uint8_t{0});
  for (size_t i = 0; i < 256; ++i) block[16 + i % 32] |= static_cast<uint8_t>((codes[i] >> 4) << (i / 32));
  store_nibbles(codes, block + 48);
  return true;
}

bool quantize_q6_k(const float* source, uint8_t* block) {
  std::array<float, 16> scales;
  float peak = 0;
  for (size_t sub = 0; sub < 16; ++sub) {
    scales[sub] = fit_symmetric(source + 16 * sub);
    if (std::fabs(scales[sub]) > std::fabs(peak)) peak = scales[sub];
  }
  if (!store_scale(peak / -128, block + 208)) return false;
  const float d = f16_to_f32(load_u16(block + 208));
  const float d_inverse = inverse_scale(d);
  std::fill_n(block, 192, uint8_t{0});
  for (size_t sub = 0; sub < 16; ++sub) {
    const int scale = nearest_clamped(scales[sub] * d_inverse, -128, 127);
    block[192 + sub] = static_cast<uint8_t>(static_cast<int8_t>(scale));
    const float inverse = inverse_scale(d * static_cast<float>(scale));
    const size_t half = sub / 8, n = sub / 2 % 4;
    uint8_t* low = block + 64 * half + 32 * (n % 2) + 16 * (sub % 2);
    uint8_t* high = block + 128 + 32 * half + 16 * (sub % 2);
    for (size_t i = 0; i < 16; ++i) {
      const int code = nearest_clamped(source[16 * sub + i] * inverse, -32, 31) + 32;
      low[i] |= static_cast<uint8_t>((code & 15) << (4 * (n / 2)));
      high[i] |= static_cast<uint8_t>((code >> 4) << (2 * n));
    }
  }
  return true;
}

}  // namespace quern::blocks
