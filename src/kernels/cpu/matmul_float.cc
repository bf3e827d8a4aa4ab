#include "kernels/cpu/matmul_float.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/dot_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_float.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// How N elements of a source row become floats.
struct ElementF32 {
  static constexpr size_t kBytes = 4;
  static HWY_INLINE VF load(DF d, const std::byte* p) { return hn::LoadU(d, reinterpret_cast<const float*>(p)); }
};
struct ElementF16 {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE VF load(DF d, const std::byte* p) {
    const hn::Rebind<hwy::float16_t, DF> dh;
    const hn::Rebind<uint16_t, DF> du;
    return hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du, reinterpret_cast<const uint16_t*>(p))));
  }
};
struct ElementBF16 {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE VF load(DF d, const std::byte* p) {
    const hn::Rebind<uint16_t, DF> du16;
    const hn::Rebind<uint32_t, DF> du32;
    const auto bits = hn::PromoteTo(du32, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(p)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
};

// Four rows times kTokens tokens: one vector accumulator per output, summed across lanes at the end. Four rows and
// three tokens fill the 16 registers of AVX2; a single token still has four chains of sums to hide the latency of one.
constexpr int kRows = 4;
constexpr int kTokensMax = 3;

template <class Element, int kTokens>
HWY_INLINE void accumulate(DF d, const std::byte* const* w, size_t w_offset, const float* const* x, size_t x_offset,
                           VF (&sums)[kTokens][kRows]) {
  const VF w0 = Element::load(d, w[0] + w_offset);
  const VF w1 = Element::load(d, w[1] + w_offset);
  const VF w2 = Element::load(d, w[2] + w_offset);
  const VF w3 = Element::load(d, w[3] + w_offset);
  for (int t = 0; t < kTokens; ++t) {
    const VF v = hn::LoadU(d, x[t] + x_offset);
    sums[t][0] = hn::MulAdd(v, w0, sums[t][0]);
    sums[t][1] = hn::MulAdd(v, w1, sums[t][1]);
    sums[t][2] = hn::MulAdd(v, w2, sums[t][2]);
    sums[t][3] = hn::MulAdd(v, w3, sums[t][3]);
  }
}

template <class Element, int kTokens>
HWY_NOINLINE void dot_block(const std::byte* const* w, const float* const* x, int64_t cols,
                            float (&result)[kTokensMax][kRows]) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  const auto count = static_cast<size_t>(cols);
  VF sums[kTokens][kRows];
  for (auto& row : sums) {
    for (VF& sum : row) sum = hn::Zero(d);
  }
  size_t k = 0;
  for (; k + lanes <= count; k += lanes) accumulate<Element, kTokens>(d, w, k * Element::kBytes, x, k, sums);
  if (k < count) {
    // Zeros behind the end add nothing; reading on in the source could leave the mapping.
    HWY_ALIGN std::byte w_tail[kRows][64] = {};
    HWY_ALIGN float x_tail[kTokens][16] = {};
    static_assert(HWY_MAX_BYTES <= 64 || !HWY_HAVE_SCALABLE);
    const std::byte* w_rows[kRows];
    const float* x_rows[kTokens];
    for (int r = 0; r < kRows; ++r) {
      std::memcpy(w_tail[r], w[r] + k * Element::kBytes, (count - k) * Element::kBytes);
      w_rows[r] = w_tail[r];
    }
    for (int t = 0; t < kTokens; ++t) {
      std::memcpy(x_tail[t], x[t] + k, (count - k) * sizeof(float));
      x_rows[t] = x_tail[t];
    }
    accumulate<Element, kTokens>(d, w_rows, 0, x_rows, 0, sums);
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kRows; ++r) result[t][r] = hn::GetLane(hn::SumOfLanes(d, sums[t][r]));
  }
}

template <class Element>
void tile_product(const FloatTile& tile) {
  for (int64_t r = 0; r < tile.num_rows; r += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, tile.num_rows - r);
    const std::byte* w[kRows];
    for (int i = 0; i < kRows; ++i) w[i] = tile.rows[r + std::min<int64_t>(i, rows - 1)];
    for (int64_t t = 0; t < tile.num_tokens; t += kTokensMax) {
      const auto tokens = std::min<int64_t>(kTokensMax, tile.num_tokens - t);
      const float* x[kTokensMax] = {};
      for (int64_t i = 0; i < tokens; ++i) x[i] = tile.x.at(t + i);
      float result[kTokensMax][kRows];
      if (tokens == 3) {
        dot_block<Element, 3>(w, x, tile.cols, result);
      } else if (tokens == 2) {
        dot_block<Element, 2>(w, x, tile.cols, result);
      } else {
        dot_block<Element, 1>(w, x, tile.cols, result);
      }
      for (int64_t i = 0; i < tokens; ++i) {
        float* out = tile.out.at(t + i) + tile.column + r;
        for (int64_t j = 0; j < rows; ++j) out[j] = result[i][j] + (tile.bias != nullptr ? tile.bias[r + j] : 0.0f);
      }
    }
  }
}

void float_tile(const FloatTile& tile) {
  switch (tile.dtype) {
    case DType::kF32: return tile_product<ElementF32>(tile);
    case DType::kF16: return tile_product<ElementF16>(tile);
    default: QUERN_DCHECK(tile.dtype == DType::kBF16); return tile_product<ElementBF16>(tile);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern {

HWY_EXPORT(float_tile);

void float_tile_product(const FloatTile& tile) {
  HWY_DYNAMIC_DISPATCH(float_tile)(tile);
}

}  // namespace quern
#endif
