// Activations to int8: a block of 32 at a time (ActTile in matmul_quant.h).
#if defined(QUERN_KERNELS_CPU_MATMUL_ACTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_MATMUL_ACTS_INL_H_
#undef QUERN_KERNELS_CPU_MATMUL_ACTS_INL_H_
#else
#define QUERN_KERNELS_CPU_MATMUL_ACTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/matmul_quant.h"

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::Repartition<float, D32>;
using VF = hn::Vec<DF>;
constexpr int64_t kLanes = HWY_LANES(float);

// Below this the scale would not be a normal float.
constexpr float kSmallestBlockMax = 127.0f * 0x1p-126f;

HWY_INLINE V32 round_to_even(VF v) {
#if HWY_TARGET == HWY_SCALAR
  return V32(static_cast<int32_t>(std::lrint(v.raw)));  // Highway's scalar rounding takes ties away from zero
#else
  return hn::NearestInt(v);
#endif
}

// Codes of a block, and their sums by halves.
#if HWY_TARGET == HWY_AVX3_DL
HWY_INLINE void round_block(const float* HWY_RESTRICT x, float factor, int8_t* HWY_RESTRICT codes, int32_t (&sums)[2]) {
  const __m512 f = _mm512_set1_ps(factor);
  const __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), f));
  const __m512i high = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), f));
  const __m256i all = _mm256_set_m128i(_mm512_cvtsepi32_epi8(high), _mm512_cvtsepi32_epi8(low));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), all);
  // Sums of eight bytes each, of codes + 128.
  const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(all, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i halves = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
  sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(halves)) - 16 * 128;
  sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(halves, 1)) - 16 * 128;
}
#else
HWY_INLINE void round_block(const float* HWY_RESTRICT x, float factor_of_block, int8_t* HWY_RESTRICT codes,
                            int32_t (&sums)[2]) {
  const DF df;
  const D32 di;
  const hn::Rebind<int8_t, DF> di8;
  const VF factor = hn::Set(df, factor_of_block);
  for (int64_t half = 0; half < 2; ++half) {
    V32 sum = hn::Zero(di);
    for (int64_t i = 16 * half; i < 16 * half + 16; i += kLanes) {
      const V32 code = round_to_even(hn::Mul(hn::LoadU(df, x + i), factor));
      sum = hn::Add(sum, code);
      hn::StoreU(hn::DemoteTo(di8, code), di8, codes + i);
    }
    sums[half] = hn::GetLane(hn::SumOfLanes(di, sum));
  }
}
#endif

HWY_INLINE void quantize_block(const float* HWY_RESTRICT x, const ActTile& tile, int64_t index) {
  const DF df;
  const D32 di;
  // Compared as integers, magnitudes keep their order and NaN is the largest.
  V32 max_bits = hn::Zero(di);
  for (int64_t i = 0; i < kBlockCols; i += kLanes) {
    max_bits = hn::Max(max_bits, hn::BitCast(di, hn::Abs(hn::LoadU(df, x + i))));
  }
  const float max = hn::GetLane(hn::BitCast(df, hn::MaxOfLanes(di, max_bits)));
  const bool is_zero = max < kSmallestBlockMax;
  int32_t sums[2];
  round_block(x, is_zero ? 0.0f : 127.0f / max, tile.codes + index * kBlockCols, sums);
  // The codes of a block with NaN or infinity mean nothing; its scale alone makes the outputs NaN.
  if (!std::isfinite(max)) sums[0] = sums[1] = 0;
  const float scale = is_zero ? 0.0f : max / 127.0f;
  tile.scale[index] = scale;
  tile.scaled_sum[index] = scale * static_cast<float>(sums[0] + sums[1]);
  tile.neg_sum[index] = -(sums[0] + sums[1]);
  tile.neg_half[0][index] = -sums[0];
  tile.neg_half[1][index] = -sums[1];
}

HWY_NOINLINE void quantize_tokens(RowList x, const ActTile& tile, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const float* row = x.at(t);
    for (int64_t b = 0; b < tile.num_blocks; ++b) quantize_block(row + kBlockCols * b, tile, b * tile.num_tokens + t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
