// Bodies of matmul_quant.h, built once per instruction set.
//
// Per block of 32 k, a panel's codes and scales are unpacked once into a scratch of the level 1 cache and multiplied
// with all tokens of the tile, a few at a time: the codes of two vectors of rows meet every activation that is
// broadcast. Where there are few tokens, codes go from the panel into the products. The floats of an output are, for
// each block (or half block) in turn, acc = acc + sum * (scale_w * scale_x) and then acc = acc + min_w * scaled_sum_x;
// nothing in that depends on the number of tokens, rows or panels at work.
#if defined(QUERN_KERNELS_CPU_MATMUL_QUANT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_MATMUL_QUANT_INL_H_
#undef QUERN_KERNELS_CPU_MATMUL_QUANT_INL_H_
#else
#define QUERN_KERNELS_CPU_MATMUL_QUANT_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/matmul_acts-inl.h"
#include "kernels/cpu/matmul_quant.h"
#include "kernels/cpu/matmul_tiles-inl.h"
#include "kernels/cpu/matmul_unpack-inl.h"
#include "kernels/cpu/pack_layout.h"

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tokens that meet the same loaded codes: four fill the registers of AVX2, whose partial sums are 16 bits wide.
constexpr int kTokensTogether = HWY_TARGET == HWY_SCALAR ? 1 : 4;
// Tokens of a step whose products need no unpacked copy of the codes.
constexpr int kFewTokens = kLanes > 8 ? 8 : 4;
constexpr int64_t kPanelGroup = kLanes > 8 ? 2 : 1;  // panels that are worked on together: at least two vectors of rows

// kV vectors of rows of a block.
template <int kV>
struct RowVectors {
  const uint8_t* codes[kV];  // as Source reads them
  const float* scale[kV];
  const float* min[kV];
};

// Where the codes of a group come from: a scratch that unpack_codes() filled, or the panel itself.
struct FromScratch {
  template <int kGroup>
  static HWY_INLINE Codes load(const uint8_t* p) {
    return load_codes(p + 64 * kGroup);
  }
};
#if HWY_TARGET != HWY_SCALAR
template <class K>
struct FromPanel {
  template <int kGroup>
  static HWY_INLINE Codes load(const uint8_t* p) {
    return unpack_group<K, kGroup>(p);
  }
};
#endif

// Group kGroup for kT tokens. kIsFirst: the partial sums begin with it.
template <class D, class Source, int kGroup, bool kIsFirst, int kT, int kV, class Sum>
HWY_INLINE void dot_group(const RowVectors<kV>& w, const int8_t* HWY_RESTRICT acts, Sum (&sums)[kT][kV]) {
  Codes codes[kV];
#pragma GCC unroll 16
  for (int v = 0; v < kV; ++v) codes[v] = Source::template load<kGroup>(w.codes[v]);
#pragma GCC unroll 16
  for (int t = 0; t < kT; ++t) {
    const Acts a = broadcast_acts(acts + kBlockCols * t + 4 * kGroup);
#pragma GCC unroll 16
    for (int v = 0; v < kV; ++v) {
      if constexpr (kIsFirst) {
        sums[t][v] = D::first(codes[v], a);
      } else {
        sums[t][v] = D::add(sums[t][v], codes[v], a);
      }
    }
  }
}

// Sums of kCount groups from kFirst on, added to `total`.
template <class D, class Source, int kFirst, int kCount, int kT, int kV>
HWY_INLINE void dot_groups(const RowVectors<kV>& w, const int8_t* HWY_RESTRICT acts, V32 (&total)[kT][kV]) {
  if constexpr (kCount == 0) {
    return;
  } else if constexpr (D::kPartialGroups == 0) {
    dot_group<D, Source, kFirst, false>(w, acts, total);
    dot_groups<D, Source, kFirst + 1, kCount - 1>(w, acts, total);
  } else {
    constexpr int kRun = HWY_MIN(D::kPartialGroups, kCount);
    typename D::Partial partial[kT][kV];
    dot_group<D, Source, kFirst, true>(w, acts, partial);
    if constexpr (kRun > 1) dot_group<D, Source, kFirst + 1, false>(w, acts, partial);
    if constexpr (kRun > 2) dot_group<D, Source, kFirst + 2, false>(w, acts, partial);
    if constexpr (kRun > 3) dot_group<D, Source, kFirst + 3, false>(w, acts, partial);
    if constexpr (kRun > 4) dot_group<D, Source, kFirst + 4, false>(w, acts, partial);
    if constexpr (kRun > 5) dot_group<D, Source, kFirst + 5, false>(w, acts, partial);
    if constexpr (kRun > 6) dot_group<D, Source, kFirst + 6, false>(w, acts, partial);
    if constexpr (kRun > 7) dot_group<D, Source, kFirst + 7, false>(w, acts, partial);
#pragma GCC unroll 16
    for (int t = 0; t < kT; ++t) {
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) total[t][v] = hn::Add(total[t][v], D::sum(partial[t][v]));
    }
    dot_groups<D, Source, kFirst + kRun, kCount - kRun>(w, acts, total);
  }
}

// Where the float sums of kT tokens and kV vectors of rows stand between blocks.
struct SumsInMemory {
  float* at;
  int64_t stride;  // floats from one token to the next
  HWY_INLINE VF get(int t, int v) const { return hn::Load(DF(), at + t * stride + v * kLanes); }
  HWY_INLINE void set(int t, int v, VF sum) const { hn::Store(sum, DF(), at + t * stride + v * kLanes); }
};
#if HWY_TARGET == HWY_AVX3_DL
template <int kT, int kV>
struct SumsInRegisters {
  VF sums[kT][kV];
  HWY_INLINE VF get(int t, int v) const { return sums[t][v]; }
  HWY_INLINE void set(int t, int v, VF sum) { sums[t][v] = sum; }
};
#endif

// Half (or whole) block kHalf for kT tokens from `index` on.
template <class K, class Source, int kHalf, int kT, int kV, class Sums>
HWY_INLINE void multiply_half(const RowVectors<kV>& w, const ActTile& x, int64_t index, Sums& acc) {
  const DF df;
  const D32 di;
  V32 total[kT][kV];
#pragma GCC unroll 16
  for (int t = 0; t < kT; ++t) {
    V32 start = hn::Zero(di);
    if constexpr (K::kZero != 0) {
      const int32_t* neg_sum = K::kHalves == 2 ? x.neg_half[kHalf] : x.neg_sum;
      start = hn::ShiftLeft<log2_of(K::kZero)>(hn::Set(di, neg_sum[index + t]));
    }
#pragma GCC unroll 16
    for (int v = 0; v < kV; ++v) total[t][v] = start;
  }
  constexpr int kCount = kGroups / K::kHalves;
  dot_groups<Dot<K::kBits>, Source, kHalf * kCount, kCount>(w, x.codes + index * kBlockCols, total);
#pragma GCC unroll 16
  for (int t = 0; t < kT; ++t) {
    const VF x_scale = hn::Set(df, x.scale[index + t]);
#pragma GCC unroll 16
    for (int v = 0; v < kV; ++v) {
      const VF scale = hn::Mul(hn::Load(df, w.scale[v] + kPanelRows * kHalf), x_scale);
      VF sum = hn::MulAdd(hn::ConvertTo(df, total[t][v]), scale, acc.get(t, v));
      if constexpr (K::kHasMin) {
        const float x_sum = K::kHalves == 2 ? -x.scale[index + t] * static_cast<float>(x.neg_half[kHalf][index + t])
                                            : x.scaled_sum[index + t];
        sum = hn::MulAdd(hn::Load(df, w.min[v] + kPanelRows * kHalf), hn::Set(df, x_sum), sum);
      }
      acc.set(t, v, sum);
    }
  }
}

template <class K, class Source, int kT, int kV, class Sums>
HWY_INLINE void multiply_block(const RowVectors<kV>& w, const ActTile& x, int64_t index, Sums& acc) {
  multiply_half<K, Source, 0, kT>(w, x, index, acc);
  if constexpr (K::kHalves == 2) multiply_half<K, Source, 1, kT>(w, x, index, acc);
}

// Vectors of rows that meet each activation together.
constexpr int vectors_together(int panels) {
  return HWY_MIN(2, panels * static_cast<int>(kPanelRows / kLanes));
}

// The vectors from `first` on of panels that lie in `blocks`, and whose codes lie at codes[panel].
template <int kV>
HWY_INLINE RowVectors<kV> row_vectors(const PanelBlock* blocks, const uint8_t* const* codes, int64_t first) {
  RowVectors<kV> w;
#pragma GCC unroll 16
  for (int v = 0; v < kV; ++v) {
    const int64_t panel = (first + v) * kLanes / kPanelRows;
    const int64_t row = (first + v) * kLanes % kPanelRows;
    w.codes[v] = codes[panel] + 4 * row;
    w.scale[v] = blocks[panel].scale[0] + row;
    w.min[v] = blocks[panel].min[0] + row;
  }
  return w;
}

// One block of kPanels unpacked panels with all tokens of the tile.
template <class K, int kPanels>
HWY_NOINLINE void multiply_tile(const PanelBlock* blocks, const ActTile& x, int64_t block_idx, float* acc) {
  constexpr int64_t kStride = kPanels * kPanelRows;
  constexpr int kV = vectors_together(kPanels);
  const int64_t index = block_idx * x.num_tokens;
  const uint8_t* codes[kPanels];
  for (int i = 0; i < kPanels; ++i) codes[i] = blocks[i].codes;
  for (int64_t first = 0; first * kLanes < kStride; first += kV) {
    const RowVectors<kV> w = row_vectors<kV>(blocks, codes, first);
    float* at = acc + first * kLanes;
    int64_t t = 0;
    for (; t + kTokensTogether <= x.num_tokens; t += kTokensTogether) {
      SumsInMemory sums = {at + t * kStride, kStride};
      multiply_block<K, FromScratch, kTokensTogether>(w, x, index + t, sums);
    }
    for (; t < x.num_tokens; ++t) {
      SumsInMemory sums = {at + t * kStride, kStride};
      multiply_block<K, FromScratch, 1>(w, x, index + t, sums);
    }
  }
}

// Rows of the run's first `num_tokens` tokens.
inline void store_rows(const PanelRun& run, int64_t num_tokens, int64_t first_row, int64_t num_rows, const float* acc,
                       int64_t acc_stride) {
  for (int64_t t = 0; t < num_tokens; ++t) {
    const float* sums = acc + t * acc_stride;
    float* out = run.out.at(t) + run.column + first_row;
    const DF df;
    int64_t r = 0;
    if (run.bias != nullptr) {
      const float* bias = run.bias + first_row;
      for (; r + kLanes <= num_rows; r += kLanes) {
        hn::StoreU(hn::Add(hn::Load(df, sums + r), hn::LoadU(df, bias + r)), df, out + r);
      }
      for (; r < num_rows; ++r) out[r] = sums[r] + bias[r];
    } else {
      for (; r + kLanes <= num_rows; r += kLanes) hn::StoreU(hn::Load(df, sums + r), df, out + r);
      for (; r < num_rows; ++r) out[r] = sums[r];
    }
  }
}

// Where block b's record and the block itself begin in a panel.
struct BlockOffsets {
  size_t record;
  size_t block;
};
constexpr BlockOffsets offsets_of(const PackedLayout& layout, int64_t b) {
  const size_t record = static_cast<size_t>(b / layout.record_blocks) * layout.record_bytes();
  const size_t in_record = static_cast<size_t>(b % layout.record_blocks) * layout.block_bytes();
  return {record, record + layout.header_bytes() + in_record};
}

// Asks for what a run will read `ahead` bytes behind block b: the memory's prefetcher loses a stream at each page, and
// two streams of panels that it knows nothing of come short of the memory's speed by half.
HWY_INLINE void prefetch_block(const PackedLayout& layout, const std::byte* panel, int64_t b, size_t ahead) {
  const auto [record, block] = offsets_of(layout, b);
  const size_t first = b % layout.record_blocks == 0 ? record : block;
  for (size_t at = first; at < block + layout.block_bytes(); at += 64) __builtin_prefetch(panel + at + ahead, 0, 2);
}

// kPanels panels with the tokens of run's first tile.
template <class K, int kPanels>
HWY_NOINLINE void run_group(const PanelRun& run, int64_t first_panel) {
  constexpr PackedLayout kLayout = K::kLayout;
  constexpr int64_t kStride = kPanels * kPanelRows;
  const ActTile& x = *run.tiles;
  alignas(64) float acc[kTileTokens * kStride];
  std::memset(acc, 0, static_cast<size_t>(x.num_tokens * kStride) * sizeof(float));
  PanelBlock blocks[kPanels];
  const std::byte* panel = run.panels + static_cast<size_t>(first_panel) * run.panel_bytes;
  for (int64_t b = 0; b < x.num_blocks; ++b) {
    const auto [record_offset, block_offset] = offsets_of(kLayout, b);
    for (int i = 0; i < kPanels; ++i) {
      const std::byte* base = panel + static_cast<size_t>(i) * run.panel_bytes;
      prefetch_block(kLayout, base, b, kPanels * run.panel_bytes);
      unpack_scales<K>(base + record_offset, base + block_offset, blocks[i].scale[0], blocks[i].min[0]);
      unpack_codes<K>(reinterpret_cast<const uint8_t*>(base + block_offset + kLayout.codes_offset()), blocks[i].codes);
    }
    multiply_tile<typename K::Product, kPanels>(blocks, x, b, acc);
  }
  const int64_t first_row = first_panel * kPanelRows;
  store_rows(run, x.num_tokens, first_row, HWY_MIN(kStride, run.num_rows - first_row), acc, kStride);
}

#if HWY_TARGET != HWY_SCALAR
// The same for at most kT tokens, whose products take the codes from the panel: storing them would cost more than
// unpacking them. Tokens past the last are computed and dropped.
template <class K, int kPanels, int kT>
HWY_NOINLINE void run_few(const PanelRun& run, int64_t first_panel) {
  constexpr PackedLayout kLayout = K::kLayout;
  constexpr int64_t kStride = kPanels * kPanelRows;
  const ActTile& x = *run.tiles;
  constexpr int kV = vectors_together(kPanels);
  alignas(64) float acc[kT * kStride] = {};
  PanelBlock blocks[kPanels];
  const std::byte* panel = run.panels + static_cast<size_t>(first_panel) * run.panel_bytes;
  for (int64_t b = 0; b < x.num_blocks; ++b) {
    const auto [record_offset, block_offset] = offsets_of(kLayout, b);
    const uint8_t* codes[kPanels];
    for (int i = 0; i < kPanels; ++i) {
      const std::byte* base = panel + static_cast<size_t>(i) * run.panel_bytes;
      if constexpr (kPanels > 1) prefetch_block(kLayout, base, b, kPanels * run.panel_bytes);
      unpack_scales<K>(base + record_offset, base + block_offset, blocks[i].scale[0], blocks[i].min[0]);
      codes[i] = reinterpret_cast<const uint8_t*>(base + block_offset + kLayout.codes_offset());
    }
#pragma GCC unroll 4
    for (int64_t first = 0; first * kLanes < kStride; first += kV) {
      SumsInMemory sums = {acc + first * kLanes, kStride};
      multiply_block<typename K::Product, FromPanel<K>, kT>(row_vectors<kV>(blocks, codes, first), x, b * x.num_tokens,
                                                            sums);
    }
  }
  const int64_t first_row = first_panel * kPanelRows;
  store_rows(run, x.num_tokens, first_row, HWY_MIN(kStride, run.num_rows - first_row), acc, kStride);
}
#endif

#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64
template <class K>
HWY_NOINLINE void unpack_panel(const std::byte* panel, int64_t num_blocks, const TilePanel& out) {
  constexpr int64_t kScales = K::Product::kHalves * kPanelRows;
  for (int64_t b = 0; b < num_blocks; ++b) {
    const auto [record_offset, block_offset] = offsets_of(K::kLayout, b);
    unpack_scales<K>(panel + record_offset, panel + block_offset, out.scale + b * kScales, out.min + b * kScales);
    unpack_codes<K, K::Product::kZero>(
        reinterpret_cast<const uint8_t*>(panel + block_offset + K::kLayout.codes_offset()),
        reinterpret_cast<uint8_t*>(out.codes + b * 64 * kGroups));
  }
}

template <class K>
HWY_INLINE bool run_with_tiles(const PanelRun& run) {
  // Fewer tokens than this leave most of a tile empty.
  constexpr int64_t kTokensMin = 4;
  if (run.tiles->num_tokens < kTokensMin || !cpu::use_tiles()) return false;
  run_tiles<K::Product::kHalves, K::Product::kHasMin>(run, [&](int64_t panel, const TilePanel& out) {
    unpack_panel<K>(run.panels + static_cast<size_t>(panel) * run.panel_bytes, run.tiles->num_blocks, out);
  });
  return true;
}
#else
template <class K>
HWY_INLINE bool run_with_tiles(const PanelRun&) {
  return false;
}
#endif

#if HWY_TARGET == HWY_AVX3_DL
// Many tokens: a piece of a few panels is unpacked once for all of them, then the sums of some tokens stay in registers
// while they walk along it. Sums that went through memory at every block took twice the time (Ice Lake: 132 and 267
// GMAC/s of one core at 2048 columns, Q4_0).
constexpr int kWalkPanels = 3;
constexpr int kWalkTokens = 4;        // 12 integer and 12 float sums, with room for operands
constexpr int64_t kPieceBlocks = 16;  // of three panels: 30 KiB, which stay in the level 1 cache
constexpr int64_t kWalkTilesMax = 8;  // whose sums wait in memory between pieces: 48 KiB

// `num_blocks` blocks of a piece, the first of them block `first_block` of the tokens. Tokens past the last are
// computed and dropped.
template <class K, int kPanels>
HWY_NOINLINE void walk_piece(const PanelBlock (*piece)[kPanels], int64_t num_blocks, const ActTile& x,
                             int64_t first_block, float* acc) {
  const DF df;
  constexpr int64_t kStride = kPanels * kPanelRows;
  for (int64_t t0 = 0; t0 < x.num_tokens; t0 += kWalkTokens) {
    SumsInRegisters<kWalkTokens, kPanels> sums;
    float* at = acc + t0 * kStride;
#pragma GCC unroll 16
    for (int t = 0; t < kWalkTokens; ++t) {
#pragma GCC unroll 16
      for (int v = 0; v < kPanels; ++v) sums.sums[t][v] = hn::Load(df, at + t * kStride + v * kPanelRows);
    }
    for (int64_t b = 0; b < num_blocks; ++b) {
      RowVectors<kPanels> w;
#pragma GCC unroll 16
      for (int v = 0; v < kPanels; ++v) {
        w.codes[v] = piece[b][v].codes;
        w.scale[v] = piece[b][v].scale[0];
        w.min[v] = piece[b][v].min[0];
      }
      multiply_block<K, FromScratch, kWalkTokens>(w, x, (first_block + b) * x.num_tokens + t0, sums);
    }
#pragma GCC unroll 16
    for (int t = 0; t < kWalkTokens; ++t) {
#pragma GCC unroll 16
      for (int v = 0; v < kPanels; ++v) hn::Store(sums.sums[t][v], df, at + t * kStride + v * kPanelRows);
    }
  }
}

// kPanels panels with the first `num_tiles` tiles of the run.
template <class K, int kPanels>
HWY_NOINLINE void run_walk(const PanelRun& run, int64_t num_tiles, int64_t first_panel) {
  constexpr PackedLayout kLayout = K::kLayout;
  constexpr int64_t kStride = kPanels * kPanelRows;
  alignas(64) float acc[kWalkTilesMax * kTileTokens * kStride];
  const int64_t num_tokens = (num_tiles - 1) * kTileTokens + run.tiles[num_tiles - 1].num_tokens;
  // Up to the last token of a whole turn.
  std::memset(acc, 0, static_cast<size_t>((num_tokens + kWalkTokens - 1) / kWalkTokens * kWalkTokens * kStride) * 4);
  PanelBlock piece[kPieceBlocks][kPanels];
  const std::byte* panel = run.panels + static_cast<size_t>(first_panel) * run.panel_bytes;
  const int64_t num_blocks = run.tiles->num_blocks;
  for (int64_t first = 0; first < num_blocks; first += kPieceBlocks) {
    const int64_t count = HWY_MIN(kPieceBlocks, num_blocks - first);
    for (int64_t b = 0; b < count; ++b) {
      const auto [record_offset, block_offset] = offsets_of(kLayout, first + b);
      for (int i = 0; i < kPanels; ++i) {
        const std::byte* base = panel + static_cast<size_t>(i) * run.panel_bytes;
        prefetch_block(kLayout, base, first + b, kPanels * run.panel_bytes);
        PanelBlock& block = piece[b][i];
        unpack_scales<K>(base + record_offset, base + block_offset, block.scale[0], block.min[0]);
        unpack_codes<K>(reinterpret_cast<const uint8_t*>(base + block_offset + kLayout.codes_offset()), block.codes);
      }
    }
    for (int64_t i = 0; i < num_tiles; ++i) {
      walk_piece<typename K::Product, kPanels>(piece, count, run.tiles[i], first, acc + i * kTileTokens * kStride);
    }
  }
  const int64_t first_row = first_panel * kPanelRows;
  store_rows(run, num_tokens, first_row, HWY_MIN(kStride, run.num_rows - first_row), acc, kStride);
}

// True: all tiles from the first on were computed. The last may have few tokens: they walk along.
template <class K>
HWY_INLINE bool run_many(const PanelRun& run) {
  if (run.num_tiles == 1 && run.tiles->num_tokens <= kFewTokens) return false;
  const int64_t num_panels = (run.num_rows + kPanelRows - 1) / kPanelRows;
  for (int64_t i = 0; i < run.num_tiles; i += kWalkTilesMax) {
    PanelRun part = run;
    part.tiles = run.tiles + i;
    part.out = run.out.from(i * kTileTokens);
    const int64_t num_tiles = HWY_MIN(kWalkTilesMax, run.num_tiles - i);
    int64_t panel = 0;
    for (; panel + kWalkPanels <= num_panels; panel += kWalkPanels) run_walk<K, kWalkPanels>(part, num_tiles, panel);
    if (panel + 2 <= num_panels) run_walk<K, 2>(part, num_tiles, panel), panel += 2;
    if (panel < num_panels) run_walk<K, 1>(part, num_tiles, panel);
  }
  return true;
}
#else
template <class K>
HWY_INLINE bool run_many(const PanelRun&) {
  return false;
}
#endif

template <class K, int kPanels>
HWY_INLINE void run_panels_of_tile(const PanelRun& run, int64_t panel) {
#if HWY_TARGET != HWY_SCALAR
  const int64_t tokens = run.tiles->num_tokens;
  if (tokens == 1) return run_few<K, kPanels, 1>(run, panel);
  if (tokens <= 4) return run_few<K, kPanels, 4>(run, panel);
  if (tokens <= kFewTokens) return run_few<K, kPanels, kFewTokens>(run, panel);
#endif
  run_group<K, kPanels>(run, panel);
}

template <DType kDType>
void run_panels(const PanelRun& run) {
  using K = WeightKind<kDType>;
  if (run_with_tiles<K>(run) || run_many<K>(run)) return;
  const int64_t num_panels = (run.num_rows + kPanelRows - 1) / kPanelRows;
  PanelRun one = run;
  for (int64_t i = 0; i < run.num_tiles; ++i) {
    one.tiles = run.tiles + i;
    one.out = run.out.from(i * kTileTokens);
    int64_t panel = 0;
    // One token: panel by panel, one stream of memory.
    const int64_t groups_end = one.tiles->num_tokens == 1 ? 0 : num_panels / kPanelGroup * kPanelGroup;
    for (; panel < groups_end; panel += kPanelGroup) run_panels_of_tile<K, kPanelGroup>(one, panel);
    for (; panel < num_panels; ++panel) run_panels_of_tile<K, 1>(one, panel);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
