// The inner loops of attention: scores of a few rows against blocks of transposed keys, and weighted sums of values.
// Every result is one chain of multiply-adds in ascending order of the element (scores) or of the position (values), so
// the number of rows and blocks taken at a time, and the conversion of stored elements (exact), change no bit.
#if defined(QUERN_KERNELS_CPU_ATTENTION_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_ATTENTION_KERNELS_INL_H_
#undef QUERN_KERNELS_CPU_ATTENTION_KERNELS_INL_H_
#else
#define QUERN_KERNELS_CPU_ATTENTION_KERNELS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/dot-inl.h"

// Whether keys and values of 16-bit integers are multiplied as such: where one instruction adds up pairs of products.
#undef QUERN_INTEGER_ATTENTION
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define QUERN_INTEGER_ATTENTION 1
#else
#define QUERN_INTEGER_ATTENTION 0
#endif

// Accumulators are arrays that must become registers: their loops are unrolled whatever the optimisation level.
HWY_BEFORE_NAMESPACE();
namespace quern::cpu::attention {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kKvBlockSize>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kBlockVectors = kKvBlockSize / kLanes;

// Accumulators that stay in registers, with two or three left for operands: of 32 registers, or of 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kAccumulators = 24;
#else
constexpr int kAccumulators = 12;
#endif
// Rows at a time: as many as fit with one block of positions, with two where a block is one vector.
constexpr int kRowsMax = HWY_MAX(1, kAccumulators / HWY_MAX(2, kBlockVectors));
static_assert(kRowsMax <= AttentionScratch::kRowsMax);

constexpr int blocks_at_once(int rows) {
  const int fit = kAccumulators / (rows * kBlockVectors);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}
constexpr int value_vectors_at_once(int rows) {
  return blocks_at_once(rows) * kBlockVectors;
}

// How stored elements become floats.
struct StoredF32 {
  using T = float;
  static HWY_INLINE V load(D d, const T* p) { return hn::LoadU(d, p); }
};
struct StoredF16 {
  using T = uint16_t;
  static HWY_INLINE V load(D d, const T* p) {
    const hn::Rebind<uint16_t, D> du;
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du, p)));
  }
};
struct StoredBF16 {
  using T = uint16_t;
  static HWY_INLINE V load(D d, const T* p) {
    const hn::Rebind<uint16_t, D> dh;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, p))));
  }
};

// scores[r][b * 16 + i] = query row r · key at position i of block b. query: [dim][kRows]; keys[b]: [dim][16].
template <class Stored, int kRows, int kBlocks>
void score_blocks(const float* HWY_RESTRICT query, int64_t dim, const void* const* keys, float* HWY_RESTRICT scores) {
  const D d;
  constexpr int kVectors = kBlocks * kBlockVectors;
  V acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  const typename Stored::T* block[kBlocks];
#pragma GCC unroll 16
  for (int b = 0; b < kBlocks; ++b) block[b] = static_cast<const typename Stored::T*>(keys[b]);
  for (int64_t i = 0; i < dim; ++i) {
    V key[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      key[v] = Stored::load(d, block[v / kBlockVectors] + i * kKvBlockSize + v % kBlockVectors * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V q = hn::Set(d, query[i * kRows + r]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(q, key[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[r][v], d, scores + r * kChunk + v * kLanes);
  }
}

// The same for blocks [begin, end) of a chunk.
template <class Stored, int kRows, int kBlocks = blocks_at_once(kRows)>
HWY_INLINE void score_range(const float* query, int64_t dim, const void* const* keys, int64_t begin, int64_t end,
                            float* scores) {
  for (; begin + kBlocks <= end; begin += kBlocks) {
    score_blocks<Stored, kRows, kBlocks>(query, dim, keys + begin, scores + begin * kKvBlockSize);
  }
  if constexpr (kBlocks > 1) {
    if (begin < end) score_range<Stored, kRows, kBlocks / 2>(query, dim, keys, begin, end, scores);
  }
}

// Values of a chunk: block b's rows start at blocks[b], `stride` elements apart; positions [begin, end) of the chunk
// count.
struct ValueRange {
  const void* const* blocks;
  int64_t stride;
  int64_t begin;
  int64_t end;
};

// acc[r][c] = acc[r][c] * factor[r] + Σ weights[r][p] * value[p][c] over kVectors vectors of columns from `col`.
template <class Stored, int kRows, int kVectors>
void weigh_columns(const ValueRange& values, int64_t col, const float* HWY_RESTRICT weights,
                   const float* HWY_RESTRICT factor, float* HWY_RESTRICT acc_rows, int64_t acc_stride) {
  const D d;
  V acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const V f = hn::Set(d, factor[r]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = hn::Mul(hn::LoadU(d, acc_rows + r * acc_stride + col + v * kLanes), f);
    }
  }
  int64_t p = values.begin;
  while (p < values.end) {
    const int64_t block = p / kKvBlockSize;
    const int64_t stop = HWY_MIN(values.end, (block + 1) * kKvBlockSize);
    const auto* row =
        static_cast<const typename Stored::T*>(values.blocks[block]) + p % kKvBlockSize * values.stride + col;
    for (; p < stop; ++p, row += values.stride) {
      V value[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) value[v] = Stored::load(d, row + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V w = hn::Set(d, weights[r * kChunk + p]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(w, value[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[r][v], d, acc_rows + r * acc_stride + col + v * kLanes);
  }
}

template <class Stored, int kRows, int kVectors = value_vectors_at_once(kRows)>
HWY_INLINE void weigh_range(const ValueRange& values, int64_t col, int64_t cols, const float* weights,
                            const float* factor, float* acc, int64_t acc_stride) {
  for (; col + kVectors * kLanes <= cols; col += kVectors * kLanes) {
    weigh_columns<Stored, kRows, kVectors>(values, col, weights, factor, acc, acc_stride);
  }
  // Columns come in whole blocks of 16.
  if constexpr (kVectors > kBlockVectors) {
    if (col < cols) {
      weigh_range<Stored, kRows, kVectors / 2>(values, col, cols, weights, factor, acc, acc_stride);
    }
  }
}

// ---- 16-bit integers ---------------------------------------------------------------------------------------------

#if QUERN_INTEGER_ATTENTION
constexpr bool kHasIntegers = true;
using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

HWY_INLINE VI load_pairs(const int16_t* p) {
  const hn::Repartition<int16_t, DI> d16;
  return hn::BitCast(DI(), hn::LoadU(d16, p));
}
HWY_INLINE VI broadcast_pair(const void* one) {
  int32_t pair;
  std::memcpy(&pair, one, sizeof pair);
  return hn::Set(DI(), pair);
}
// sum + the products of the pairs with the pair in each lane of `one`. Spelled out: GCC 12 copies the sums of the
// intrinsics from register to register, and spills most of them.
HWY_INLINE VI add_products(VI sum, VI pairs, VI one) {
#if HWY_TARGET == HWY_AVX3_DL
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(pairs.raw), "v"(one.raw));
#else
  VI products;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum.raw), "=&v"(products.raw) : "v"(pairs.raw), "v"(one.raw));
#endif
  return sum;
}

// Keys of a chunk: block b's pairs are [key_dim / 2][16][2], its scales [16].
struct IntegerKeys {
  const void* const* blocks;
  const float* const* scales;
};

// As score_blocks(): query [dim / 2, rounded up][kRows] pairs, query_scale [kRows].
template <int kRows, int kBlocks>
void score_integer_blocks(const float* HWY_RESTRICT query, const float* HWY_RESTRICT query_scale, int64_t dim,
                          const IntegerKeys& keys, int64_t first, float* HWY_RESTRICT scores) {
  const D d;
  constexpr int kVectors = kBlocks * kBlockVectors;
  VI acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(DI());
  }
  const int16_t* block[kBlocks];
#pragma GCC unroll 16
  for (int b = 0; b < kBlocks; ++b) block[b] = static_cast<const int16_t*>(keys.blocks[first + b]);
  for (int64_t i = 0; i < (dim + 1) / 2; ++i) {
    VI key[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      key[v] = load_pairs(block[v / kBlockVectors] + 2 * (i * kKvBlockSize + v % kBlockVectors * kLanes));
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const VI q = broadcast_pair(query + i * kRows + r);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) acc[r][v] = add_products(acc[r][v], key[v], q);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const V key_scale = hn::LoadU(d, keys.scales[first + v / kBlockVectors] + v % kBlockVectors * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V sum = hn::Mul(hn::ConvertTo(d, acc[r][v]), key_scale);
      hn::StoreU(hn::Mul(sum, hn::Set(d, query_scale[r])), d, scores + r * kChunk + v * kLanes);
    }
  }
}

template <int kRows, int kBlocks = blocks_at_once(kRows)>
HWY_INLINE void score_integer_range(const float* query, const float* query_scale, int64_t dim, const IntegerKeys& keys,
                                    int64_t begin, int64_t end, float* scores) {
  for (; begin + kBlocks <= end; begin += kBlocks) {
    score_integer_blocks<kRows, kBlocks>(query, query_scale, dim, keys, begin, scores + begin * kKvBlockSize);
  }
  if constexpr (kBlocks > 1) {
    if (begin < end) score_integer_range<kRows, kBlocks / 2>(query, query_scale, dim, keys, begin, end, scores);
  }
}

// Weights of kRows rows as codes [kRows][kChunk] and their scales [kRows].
struct IntegerWeights {
  const int16_t* codes;
  const float* scale;
};

// acc[r][c] = acc[r][c] * factor[r] + scale[r] * Σ code[r][p] * value[p][c]; block b's values are [8][stride][2].
// values.begin and values.end are multiples of 16.
template <int kRows, int kVectors>
void weigh_integer_columns(const ValueRange& values, int64_t col, const IntegerWeights& weights,
                           const float* HWY_RESTRICT factor, float* HWY_RESTRICT acc_rows, int64_t acc_stride) {
  const D d;
  VI sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(DI());
  }
  for (int64_t p = values.begin; p < values.end;) {
    const auto* row = static_cast<const int16_t*>(values.blocks[p / kKvBlockSize]) + 2 * col;
    for (const int64_t stop = p + kKvBlockSize; p < stop; p += 2, row += 2 * values.stride) {
      VI value[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) value[v] = load_pairs(row + 2 * v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const VI w = broadcast_pair(weights.codes + r * kChunk + p);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[r][v] = add_products(sum[r][v], value[v], w);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const V f = hn::Set(d, factor[r]), scale = hn::Set(d, weights.scale[r]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      float* at = acc_rows + r * acc_stride + col + v * kLanes;
      const V old = hn::Mul(hn::LoadU(d, at), f);
      hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sum[r][v]), scale, old), d, at);
    }
  }
}

template <int kRows, int kVectors = value_vectors_at_once(kRows)>
HWY_INLINE void weigh_integer_range(const ValueRange& values, int64_t col, int64_t cols, const IntegerWeights& weights,
                                    const float* factor, float* acc, int64_t acc_stride) {
  for (; col + kVectors * kLanes <= cols; col += kVectors * kLanes) {
    weigh_integer_columns<kRows, kVectors>(values, col, weights, factor, acc, acc_stride);
  }
  // Columns come in whole blocks of 16.
  if constexpr (kVectors > kBlockVectors) {
    if (col < cols) {
      weigh_integer_range<kRows, kVectors / 2>(values, col, cols, weights, factor, acc, acc_stride);
    }
  }
}
#else
constexpr bool kHasIntegers = false;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu::attention
HWY_AFTER_NAMESPACE();

#endif  // toggle
