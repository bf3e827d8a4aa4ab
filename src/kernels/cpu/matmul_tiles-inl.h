// Products of many tokens by matrix tiles (tiles.h): 16 tokens times the 16 rows of a panel at a time.
//
// Panels are unpacked once for all tokens of a task. Then each strip of up to 16 tokens keeps its sums in registers
// while it walks along k: a tile instruction makes the integer sums of a block (or half block), and the floats follow
// as everywhere else (matmul_quant-inl.h), so the bits are those of the vector path. The sums of later blocks are under
// way while those of the current one become floats.
#if defined(QUERN_KERNELS_CPU_MATMUL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_MATMUL_TILES_INL_H_
#undef QUERN_KERNELS_CPU_MATMUL_TILES_INL_H_
#else
#define QUERN_KERNELS_CPU_MATMUL_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/matmul_quant.h"
#include "kernels/cpu/pack_layout.h"
#include "kernels/cpu/tiles.h"

#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kStripTokens = 16;

// One panel, ready for tiles; a unit is a block, or a half block where halves have their own scales.
struct TilePanel {
  int8_t* codes;  // [unit][group][row][4], zero points taken off
  float* scale;   // [unit][row]
  float* min;     // [unit][row]; unused without minima
};

// Up to 16 tokens of a tile of activations.
struct Strip {
  const ActTile* x;
  int64_t first;
  RowList out;  // of the strip's first token
  int64_t num_tokens;
};

struct TileRows {
  int64_t column;
  int64_t num_rows;
  const float* bias;  // of the panel's first row, or null
};

template <int kHalves, int kTokens>
class StripProduct {
 public:
  StripProduct(const TilePanel& panel, const Strip& strip) : panel_(panel), x_(*strip.x), first_(strip.first) {}

  template <bool kHasMin>
  HWY_INLINE void run(hn::Vec<hn::FixedTag<float, 16>> (&acc)[kTokens]) {
    const int64_t n = x_.num_blocks * kHalves;
    start<0>(0);
    if (n > 1) start<1>(1);
    if (n > 2) start<2>(2);
    finish<0>();
    for (int64_t u = 0; u < n; u += 4) {
      step<0, kHasMin>(u, n, acc);
      if (u + 1 < n) step<1, kHasMin>(u + 1, n, acc);
      if (u + 2 < n) step<2, kHasMin>(u + 2, n, acc);
      if (u + 3 < n) step<3, kHasMin>(u + 3, n, acc);
    }
  }

 private:
  using DFloats = hn::FixedTag<float, 16>;
  using DInts = hn::FixedTag<int32_t, 16>;

  // Integer sums of unit u into C tile kSlot. A and B tiles alternate.
  template <int kSlot>
  HWY_INLINE void start(int64_t u) const {
    constexpr int kA = 4 + kSlot % 2;
    constexpr int kB = 6 + kSlot % 2;
    const int64_t token = u / kHalves * x_.num_tokens + first_;
    cpu::tile_zero<kSlot>();
    cpu::tile_load<kA>(x_.codes + token * kBlockCols + u % kHalves * 16, kBlockCols);
    cpu::tile_load<kB>(panel_.codes + u * (64 * kGroups / kHalves), 64);
    cpu::tile_dot<kSlot, kA, kB>();
  }

  template <int kSlot>
  HWY_INLINE void finish() {
    cpu::tile_store<kSlot>(sums_[kSlot], 64);
  }

  template <int kSlot, bool kHasMin>
  HWY_INLINE void step(int64_t u, int64_t n, hn::Vec<DFloats> (&acc)[kTokens]) {
    if (u + 3 < n) start<(kSlot + 3) % 4>(u + 3);
    if (u + 1 < n) finish<(kSlot + 1) % 4>();
    const DFloats df;
    const int32_t* sums = sums_[kSlot];
    const int64_t token = u / kHalves * x_.num_tokens + first_;
    const float* x_scale = x_.scale + token;
    const auto scale = hn::Load(df, panel_.scale + u * kPanelRows);
    if constexpr (!kHasMin) {
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t) {
        const auto sum = hn::ConvertTo(df, hn::Load(DInts(), sums + kPanelRows * t));
        acc[t] = hn::MulAdd(sum, hn::Mul(scale, hn::Set(df, x_scale[t])), acc[t]);
      }
    } else {
      const float* x_sum = kHalves == 1 ? x_.scaled_sum + token : half_sums(token, u % kHalves);
      const auto min = hn::Load(df, panel_.min + u * kPanelRows);
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t) {
        const auto sum = hn::ConvertTo(df, hn::Load(DInts(), sums + kPanelRows * t));
        acc[t] = hn::MulAdd(sum, hn::Mul(scale, hn::Set(df, x_scale[t])), acc[t]);
        acc[t] = hn::MulAdd(min, hn::Set(df, x_sum[t]), acc[t]);
      }
    }
  }

  HWY_INLINE const float* half_sums(int64_t token, int64_t half) {
    const DFloats df;
    const auto neg_sum = hn::ConvertTo(df, hn::LoadU(DInts(), x_.neg_half[half] + token));
    hn::Store(hn::Mul(hn::Neg(hn::LoadU(df, x_.scale + token)), neg_sum), df, half_sums_);
    return half_sums_;
  }

  const TilePanel& panel_;
  const ActTile& x_;
  const int64_t first_;
  alignas(64) int32_t sums_[4][kStripTokens * kPanelRows];
  alignas(64) float half_sums_[kStripTokens];
};

template <int kHalves, bool kHasMin, int kTokens>
HWY_NOINLINE void multiply_strip(const TilePanel& panel, const Strip& strip, const TileRows& rows) {
  const hn::FixedTag<float, 16> df;
  hn::Vec<decltype(df)> acc[kTokens];
  for (auto& sum : acc) sum = hn::Zero(df);
  StripProduct<kHalves, kTokens> product(panel, strip);
  product.template run<kHasMin>(acc);
  alignas(64) float bias[kPanelRows] = {};
  const auto row_bytes = static_cast<size_t>(rows.num_rows) * sizeof(float);
  if (rows.bias != nullptr) {
    std::memcpy(bias, rows.bias, row_bytes);
    for (auto& sum : acc) sum = hn::Add(sum, hn::Load(df, bias));
  }
  alignas(64) float sums[kTokens][kPanelRows];
  for (int t = 0; t < kTokens; ++t) hn::Store(acc[t], df, sums[t]);
  for (int64_t t = 0; t < strip.num_tokens; ++t) {
    std::memcpy(strip.out.at(t) + rows.column, sums[t], row_bytes);
  }
}

template <int kHalves, bool kHasMin>
HWY_INLINE void multiply_any_strip(cpu::TileShapes& shapes, const TilePanel& panel, const Strip& strip,
                                   const TileRows& rows) {
  constexpr int kDepth = kBlockCols / kHalves;
  if (strip.num_tokens > 8) {
    shapes.set(16, kDepth);
    multiply_strip<kHalves, kHasMin, 16>(panel, strip, rows);
  } else if (strip.num_tokens > 4) {
    shapes.set(8, kDepth);
    multiply_strip<kHalves, kHasMin, 8>(panel, strip, rows);
  } else {
    shapes.set(4, kDepth);
    multiply_strip<kHalves, kHasMin, 4>(panel, strip, rows);
  }
}

// Memory of a thread for a few unpacked panels: what fits into half of a level 2 cache, at least one; for so few tokens
// that a panel is used but once or twice, one, which stays in the level 1 cache.
class TilePanels {
 public:
  TilePanels(int64_t num_blocks, int64_t halves, int64_t num_tiles)
      : num_units_(num_blocks * halves), panel_bytes_(num_blocks * 64 * kGroups + 2 * num_units_ * kScaleBytes) {
    constexpr int64_t kBytes = int64_t{512} << 10;
    count_ = num_tiles == 1 ? 1 : std::max<int64_t>(1, kBytes / panel_bytes_);
    thread_local std::vector<std::byte> memory;
    const auto bytes = static_cast<size_t>(count_ * panel_bytes_ + 64);
    if (memory.size() < bytes) memory.resize(bytes);
    first_ = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }

  int64_t count() const { return count_; }
  TilePanel operator[](int64_t i) const {
    std::byte* at = first_ + i * panel_bytes_;
    auto* scale = reinterpret_cast<float*>(at);
    auto* min = reinterpret_cast<float*>(at + num_units_ * kScaleBytes);
    return {reinterpret_cast<int8_t*>(at + 2 * num_units_ * kScaleBytes), scale, min};
  }

 private:
  static constexpr int64_t kScaleBytes = kPanelRows * sizeof(float);
  int64_t num_units_;
  int64_t panel_bytes_;
  int64_t count_;
  std::byte* first_;
};

// All tokens of the run. `unpack(panel_idx, target)` unpacks one panel.
template <int kHalves, bool kHasMin>
HWY_INLINE void run_tiles(const PanelRun& run, const auto& unpack) {
  const int64_t num_panels = (run.num_rows + kPanelRows - 1) / kPanelRows;
  const TilePanels panels(run.tiles->num_blocks, kHalves, run.num_tiles);
  cpu::TileShapes shapes;
  for (int64_t begin = 0; begin < num_panels; begin += panels.count()) {
    const int64_t count = HWY_MIN(panels.count(), num_panels - begin);
    for (int64_t i = 0; i < count; ++i) unpack(begin + i, panels[i]);
    for (int64_t tile = 0; tile < run.num_tiles; ++tile) {
      const ActTile& x = run.tiles[tile];
      for (int64_t first = 0; first < x.num_tokens; first += kStripTokens) {
        const Strip strip = {&x, first, run.out.from(tile * kTileTokens + first),
                             HWY_MIN(int64_t{kStripTokens}, x.num_tokens - first)};
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = (begin + i) * kPanelRows;
          multiply_any_strip<kHalves, kHasMin>(shapes, panels[i], strip,
                                               {run.column + row, HWY_MIN(kPanelRows, run.num_rows - row),
                                                run.bias != nullptr ? run.bias + row : nullptr});
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3_DL
#endif  // per-target include guard
