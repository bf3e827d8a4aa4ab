#include "kernels/cpu/attention_tile.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/dot_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/cpu/attention_chunk-inl.h"
#include "kernels/cpu/attention_kernels-inl.h"
#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::attention {
namespace HWY_NAMESPACE {
namespace {
namespace vm = quern::vector_math::HWY_NAMESPACE;

constexpr float kLog2E = 1.44269504f;
// Maximum of no scores at all; 2 to its difference from any score is zero, and the difference from itself is not NaN.
constexpr float kNoScore = -1e30f;
constexpr float kFloatMax = 3.4028234e38f;

HWY_INLINE float exp2_one(float x) {
  const hn::CappedTag<float, 1> d1;
  return hn::GetLane(vm::exp2(d1, hn::Set(d1, x)));
}

// A few consecutive rows of a tile that go through the kernels together.
struct RowGroup {
  int64_t first;
  int64_t begin;  // positions that any of the rows sees
  int64_t end;
};

// Rows to take next when `left` remain.
HWY_INLINE int rows_at_once(int64_t left) {
  for (int rows : {12, 6, 4, 3, 2}) {
    if (rows <= kRowsMax && rows <= left) return rows;
  }
  return 1;
}

// Calls f with std::integral_constant-like `rows`.
template <int kRows>
struct Rows {
  static constexpr int value = kRows;
};
template <class F>
HWY_INLINE void with_rows(int rows, const F& f) {
  if constexpr (kRowsMax >= 12) {
    if (rows == 12) return f(Rows<12>());
  }
  if constexpr (kRowsMax >= 6) {
    if (rows == 6) return f(Rows<6>());
  }
  if constexpr (kRowsMax >= 4) {
    if (rows == 4) return f(Rows<4>());
  }
  if constexpr (kRowsMax >= 3) {
    if (rows == 3) return f(Rows<3>());
  }
  if constexpr (kRowsMax >= 2) {
    if (rows == 2) return f(Rows<2>());
  }
  f(Rows<1>());
}
template <class F>
HWY_INLINE void with_stored(KvDType dtype, const F& f) {
  if (dtype == KvDType::kF16) return f(StoredF16());
  f(StoredF32());
}

#if QUERN_INTEGER_ATTENTION
// How numbers up to `max` become codes up to `limit`. Where the inverse would not be finite, all are zero; not-a-number
// and infinity stand in the scale alone.
struct CodeScale {
  CodeScale(float max, float limit) : is_finite(max <= kFloatMax) {
    if (max < limit * 0x1p-126f) return;
    scale = max / limit;
    if (is_finite) inverse = limit / max;
  }
  bool is_finite;
  float scale = 0;
  float inverse = 0;
};

// The same as codes and their scales: [dim / 2][rows at once] pairs.
void pack_integer_queries(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> d16;
  const AttentionSpec& spec = *call.spec;
  const float factor = spec.softcap > 0 ? spec.scale / spec.softcap : spec.scale * kLog2E;
  const auto limit = static_cast<float>(kv_code_max(call.key_dim));
  const int64_t first_row = call.sequences[static_cast<size_t>(tile.sequence)].query_begin + tile.token_begin;
  const int64_t rows = tile.rows(call);
  HWY_ALIGN float padded[16];
  HWY_ALIGN int16_t codes[16];
  for (int64_t r0 = 0; r0 < rows;) {
    const int at_once = rows_at_once(rows - r0);
    auto* target = reinterpret_cast<std::byte*>(scratch.query + r0 * call.key_dim);
    for (int r = 0; r < at_once; ++r) {
      const int64_t token = (r0 + r) / call.group, head = tile.kv_head * call.group + (r0 + r) % call.group;
      const float* query = call.query.row(first_row + token) + head * call.key_dim;
      const auto piece = [&](int64_t i) {
        if (i + kLanes <= call.key_dim) return hn::LoadU(d, query + i);
        for (int64_t k = 0; k < kLanes; ++k) padded[k] = i + k < call.key_dim ? query[i + k] : 0.0f;
        return hn::Load(d, padded);
      };
      auto tops = hn::Zero(di);  // as integers, so that NaN is the largest
      for (int64_t i = 0; i < call.key_dim; i += kLanes) {
        tops = hn::Max(tops, hn::BitCast(di, hn::Abs(piece(i))));
      }
      const float max = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, tops)));
      const CodeScale by(max, limit);
      const V inverse = hn::Set(d, by.inverse);
      scratch.query_scale[r0 + r] = by.scale * factor;
      for (int64_t i = 0; i < call.key_dim; i += kLanes) {
        const auto code = by.is_finite ? hn::NearestInt(hn::Mul(piece(i), inverse)) : hn::Zero(di);
        hn::Store(hn::DemoteTo(d16, code), d16, codes);
        for (int64_t k = 0; k < kLanes && i + k < call.key_dim; k += 2) {
          std::memcpy(target + ((i + k) / 2 * at_once + r) * 4, codes + k, 4);
        }
      }
    }
    r0 += at_once;
  }
}
#endif

// Queries in the order of the score kernel, [dim][rows at once], scaled so that scores come out in units of log2, or
// ready for tanh where scores are capped.
void pack_queries(const AttentionCall& call, const AttentionTile& tile, float* target) {
  const AttentionSpec& spec = *call.spec;
  const float factor = spec.softcap > 0 ? spec.scale / spec.softcap : spec.scale * kLog2E;
  const int64_t first_row = call.sequences[static_cast<size_t>(tile.sequence)].query_begin + tile.token_begin;
  const int64_t rows = tile.rows(call);
  for (int64_t r0 = 0; r0 < rows;) {
    const int at_once = rows_at_once(rows - r0);
    for (int r = 0; r < at_once; ++r) {
      const int64_t token = (r0 + r) / call.group, head = tile.kv_head * call.group + (r0 + r) % call.group;
      const float* query = call.query.row(first_row + token) + head * call.key_dim;
      for (int64_t i = 0; i < call.key_dim; ++i) target[r0 * call.key_dim + i * at_once + r] = query[i] * factor;
    }
    r0 += at_once;
  }
}

// What ALiBi adds to the scores of a row, in their units; the chunk's first key stands at `position`.
struct AlibiRow {
  float slope = 0;
  float factor = 0;
  int64_t position = 0;
};

HWY_INLINE V round_bf16(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  return hn::BitCast(d, hn::And(rounded, hn::Set(du, 0xffff0000)));
}

HWY_NOINLINE void add_alibi(float* HWY_RESTRICT scores, int64_t begin, int64_t end, const AlibiRow& row) {
  const D d;
  for (int64_t p = begin; p < end; p += kLanes) {
    const V position = round_bf16(d, hn::Iota(d, static_cast<float>(row.position + p)));
    const V bias = round_bf16(d, hn::Mul(position, hn::Set(d, row.slope)));
    hn::StoreU(hn::MulAdd(bias, hn::Set(d, row.factor), hn::LoadU(d, scores + p)), d, scores + p);
  }
}

// Turns scores [begin, end) of a row (whole blocks) into weights, updates the running maximum and sums, and returns
// what the sums so far must be multiplied with. visible: positions of the chunk that the row sees.
HWY_NOINLINE float soften_row(float* HWY_RESTRICT scores, int64_t begin, int64_t end, VisibleRange visible,
                              float softcap, float& max, float* HWY_RESTRICT lane_sum) {
  const D d;
  if (visible.begin >= end || visible.end <= begin || visible.begin >= visible.end) {
    for (int64_t p = begin; p < end; p += kLanes) hn::StoreU(hn::Zero(d), d, scores + p);
    return 1.0f;
  }
  const bool masked = visible.begin > begin || visible.end < end;
  V top = hn::Set(d, max);
  for (int64_t p = begin; p < end; p += kLanes) {
    V s = hn::LoadU(d, scores + p);
    if (softcap > 0) s = hn::Mul(vm::tanh(d, s), hn::Set(d, softcap * kLog2E));
    if (masked) {
      const V at = hn::Iota(d, static_cast<float>(p));
      const auto seen = hn::And(hn::Ge(at, hn::Set(d, static_cast<float>(visible.begin))),
                                hn::Lt(at, hn::Set(d, static_cast<float>(visible.end))));
      s = hn::IfThenElse(seen, s, hn::Set(d, kNoScore));
    }
    top = hn::Max(top, s);
    hn::StoreU(s, d, scores + p);
  }
  const float new_max = hn::GetLane(hn::MaxOfLanes(d, top));
  const float factor = new_max == max ? 1.0f : exp2_one(max - new_max);  // exp2(0) is 1, too
  V sum = hn::Zero(d);
  for (int64_t p = begin; p < end; p += kLanes) {
    const V w = vm::exp2(d, hn::Sub(hn::LoadU(d, scores + p), hn::Set(d, new_max)));
    sum = hn::Add(sum, w);
    hn::StoreU(w, d, scores + p);
  }
  hn::StoreU(hn::MulAdd(hn::LoadU(d, lane_sum), hn::Set(d, factor), sum), d, lane_sum);
  max = new_max;
  return factor;
}

#if QUERN_INTEGER_ATTENTION
// Weights of a row as codes for values of integers: each times the scale of its position's value. Returns the scale.
HWY_NOINLINE float code_weights(const float* HWY_RESTRICT weights, int64_t begin, int64_t end,
                                const float* const* value_scales, int16_t* HWY_RESTRICT codes) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> d16;
  V scaled[kChunk / kLanes];
  auto tops = hn::Zero(di);  // as integers, so that NaN is the largest
  for (int64_t p = begin; p < end; p += kLanes) {
    const V w = hn::LoadU(d, weights + p);
    const V scale = hn::LoadU(d, value_scales[p / kKvBlockSize] + p % kKvBlockSize);
    // A position that is not seen may have any scale.
    const V u = hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), hn::Mul(w, scale));
    scaled[p / kLanes] = u;
    tops = hn::Max(tops, hn::BitCast(di, hn::Abs(u)));
  }
  const float max = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, tops)));
  constexpr auto kLimit = static_cast<float>(kv_code_max(kKvValueTerms));
  const CodeScale by(max, kLimit);
  const V inverse = hn::Set(d, by.inverse);
  for (int64_t p = begin; p < end; p += kLanes) {
    const auto code = by.is_finite ? hn::NearestInt(hn::Mul(scaled[p / kLanes], inverse)) : hn::Zero(di);
    hn::StoreU(hn::DemoteTo(d16, code), d16, codes + p);
  }
  return by.scale;
}

// Lane r of the result: the largest lane of rows[r], for as many rows as lanes; magnitudes as integers, or floats.
template <class Max>
HWY_INLINE V largest_lanes(const V* rows, const Max& max) {
  const D d;
  const hn::Repartition<double, D> pair;
  V halves[kLanes / 2], quarters[kLanes / 4];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes / 2; ++i) {
    const V a = rows[2 * i], b = rows[2 * i + 1];
    halves[i] = max(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes / 4; ++i) {
    const auto a = hn::BitCast(pair, halves[2 * i]), b = hn::BitCast(pair, halves[2 * i + 1]);
    quarters[i] = max(hn::BitCast(d, hn::InterleaveLower(pair, a, b)), hn::BitCast(d, hn::InterleaveUpper(pair, a, b)));
  }
#if HWY_TARGET == HWY_AVX2
  return max(hn::ConcatLowerLower(d, quarters[1], quarters[0]), hn::ConcatUpperUpper(d, quarters[1], quarters[0]));
#else
  // 0x88 takes the even 128-bit lanes of both, 0xdd the odd ones.
  const auto merge = [&](V a, V b) {
    return max(V{_mm512_shuffle_f32x4(a.raw, b.raw, 0x88)}, V{_mm512_shuffle_f32x4(a.raw, b.raw, 0xdd)});
  };
  return merge(merge(quarters[0], quarters[1]), merge(quarters[2], quarters[3]));
#endif
}

// What soften_row() and code_weights() do for one row, for kRows <= kLanes that see all of blocks [begin, end): what is
// one number a row is made for all rows at once. The same bits.
template <int kRows>
HWY_INLINE void soften_rows(const AttentionScratch& scratch, int64_t begin, int64_t end,
                            const float* const* value_scales, float* HWY_RESTRICT max, float* HWY_RESTRICT lane_sum,
                            float* HWY_RESTRICT factor, float* HWY_RESTRICT code_scale) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> d16;
  static_assert(kRows <= kLanes);
  const auto rows_mask = hn::FirstN(d, kRows);
  const auto float_max = [](V a, V b) { return hn::Max(a, b); };
  const auto bits_max = [](V a, V b) {
    const D to;
    const hn::RebindToSigned<D> bits;
    return hn::BitCast(to, hn::Max(hn::BitCast(bits, a), hn::BitCast(bits, b)));
  };
  V tops[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const float* scores = scratch.scores + r * kChunk;
    V top = hn::LoadU(d, scores + begin);
    for (int64_t p = begin + kLanes; p < end; p += kLanes) top = hn::Max(top, hn::LoadU(d, scores + p));
    tops[r] = top;
  }
#pragma GCC unroll 16
  for (int r = kRows; r < kLanes; ++r) tops[r] = tops[0];
  const V old_max = hn::MaskedLoad(rows_mask, d, max);
  const V new_max = hn::Max(old_max, largest_lanes(tops, float_max));
  alignas(64) float row_max[kLanes], row_factor[kLanes], inverse[kLanes];
  hn::Store(new_max, d, row_max);
  hn::Store(vm::exp2(d, hn::Sub(old_max, new_max)), d, row_factor);
  hn::BlendedStore(new_max, rows_mask, d, max);
  for (int r = 0; r < kRows; ++r) {
    float* scores = scratch.scores + r * kChunk;
    const V top = hn::Set(d, row_max[r]);
    V sum = hn::Zero(d);
    auto magnitude = hn::Zero(di);
    for (int64_t p = begin; p < end; p += kLanes) {
      const V w = vm::exp2(d, hn::Sub(hn::LoadU(d, scores + p), top));
      sum = hn::Add(sum, w);
      const V scale = hn::LoadU(d, value_scales[p / kKvBlockSize] + p % kKvBlockSize);
      const V u = hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), hn::Mul(w, scale));
      magnitude = hn::Max(magnitude, hn::BitCast(di, hn::Abs(u)));
      hn::StoreU(u, d, scores + p);
    }
    tops[r] = hn::BitCast(d, magnitude);
    factor[r] = row_factor[r];
    hn::StoreU(hn::MulAdd(hn::LoadU(d, lane_sum + r * 16), hn::Set(d, row_factor[r]), sum), d, lane_sum + r * 16);
  }
  const V top = largest_lanes(tops, bits_max);
  constexpr auto kLimit = static_cast<float>(kv_code_max(kKvValueTerms));
  const V limit = hn::Set(d, kLimit);
  const auto is_zero = hn::Lt(top, hn::Set(d, kLimit * 0x1p-126f));
  const auto is_finite = hn::Le(top, hn::Set(d, kFloatMax));
  hn::Store(hn::IfThenElseZero(is_finite, hn::IfThenZeroElse(is_zero, hn::Div(limit, top))), d, inverse);
  hn::BlendedStore(hn::IfThenZeroElse(is_zero, hn::Div(top, limit)), rows_mask, d, code_scale);
  for (int r = 0; r < kRows; ++r) {
    const float* scores = scratch.scores + r * kChunk;
    const V inv = hn::Set(d, inverse[r]);
    for (int64_t p = begin; p < end; p += kLanes) {
      // Of a row that is not finite any codes do: their scale is not a number either.
      const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, scores + p), inv));
      hn::StoreU(hn::DemoteTo(d16, code), d16, scratch.weights + r * kChunk + p);
    }
  }
}

// Adds what blocks [begin, end) of a chunk weigh, once their weights are codes.
template <int kRows>
HWY_INLINE void weigh_integers(const AttentionCall& call, const AttentionScratch& scratch, const Chunk& chunk,
                               int64_t begin, int64_t end, const float* factor, const float* scale, float* acc) {
  const ValueRange values = {chunk.values, chunk.value_stride, begin, end};
  weigh_integer_range<kRows>(values, 0, call.value_stride, {scratch.weights, scale}, factor, acc, call.value_stride);
}
#endif

// One step of the online softmax for kRows rows over the part of a chunk that they see.
template <int kRows>
HWY_INLINE void step(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch,
                     const Chunk& chunk, int64_t chunk_begin, const RowGroup& group, const SoftmaxState& state) {
  const int64_t begin = HWY_MAX(group.begin - chunk_begin, int64_t{0});
  const int64_t end = HWY_MIN(group.end - chunk_begin, kChunk);
  if (begin >= end) return;
  const int64_t first_block = begin / kKvBlockSize, end_block = (end + kKvBlockSize - 1) / kKvBlockSize;
  const float* query = scratch.query + group.first * call.key_dim;
#if QUERN_INTEGER_ATTENTION
  if (chunk.key_dtype == KvDType::kI16) {
    score_integer_range<kRows>(query, scratch.query_scale + group.first, call.key_dim, {chunk.keys, chunk.key_scales},
                               first_block, end_block, scratch.scores);
  } else
#endif
  {
    with_stored(chunk.key_dtype, [&](auto stored) {
      score_range<decltype(stored), kRows>(query, call.key_dim, chunk.keys, first_block, end_block, scratch.scores);
    });
  }
  float factor[kRows];
  float* const acc = state.acc + group.first * call.value_stride;
#if QUERN_INTEGER_ATTENTION
  const int64_t whole_begin = first_block * kKvBlockSize, whole_end = end_block * kKvBlockSize;
  float code_scale[16];
  if (chunk.value_dtype == KvDType::kI16 && call.spec->softcap <= 0 && call.spec->alibi == nullptr) {
    // The first row ends first, the last begins last.
    const VisibleRange first = visible_range(call, tile, group.first / call.group);
    const VisibleRange last = visible_range(call, tile, (group.first + kRows - 1) / call.group);
    if (last.begin - chunk_begin <= whole_begin && first.end - chunk_begin >= whole_end) {
      soften_rows<kRows>(scratch, whole_begin, whole_end, chunk.value_scales, state.max + group.first,
                         scratch.lane_sum + group.first * 16, factor, code_scale);
      return weigh_integers<kRows>(call, scratch, chunk, whole_begin, whole_end, factor, code_scale, acc);
    }
  }
#endif
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = group.first + r;
    VisibleRange visible = visible_range(call, tile, row / call.group);
    visible.begin -= chunk_begin;
    visible.end -= chunk_begin;
    if (call.spec->alibi != nullptr) {
      const float slope = call.spec->alibi[tile.kv_head * call.group + row % call.group];
      add_alibi(scratch.scores + r * kChunk, first_block * kKvBlockSize, end_block * kKvBlockSize,
                {slope, call.spec->scale * kLog2E, chunk_begin});
    }
    factor[r] = soften_row(scratch.scores + r * kChunk, first_block * kKvBlockSize, end_block * kKvBlockSize, visible,
                           call.spec->softcap, state.max[row], scratch.lane_sum + row * 16);
  }
#if QUERN_INTEGER_ATTENTION
  if (chunk.value_dtype == KvDType::kI16) {
    for (int r = 0; r < kRows; ++r) {
      code_scale[r] = code_weights(scratch.scores + r * kChunk, whole_begin, whole_end, chunk.value_scales,
                                   scratch.weights + r * kChunk);
    }
    return weigh_integers<kRows>(call, scratch, chunk, whole_begin, whole_end, factor, code_scale, acc);
  }
#endif
  const ValueRange values = {chunk.values, chunk.value_stride, begin, end};
  with_stored(chunk.value_dtype, [&](auto stored) {
    weigh_range<decltype(stored), kRows>(values, 0, call.value_stride, scratch.scores, factor, acc, call.value_stride);
  });
}

// Computes the state of one segment from nothing.
void attend_segment(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch,
                    int64_t segment, const SoftmaxState& state) {
  const int64_t rows = tile.rows(call);
  for (int64_t r = 0; r < rows; ++r) state.max[r] = kNoScore;
  for (int64_t i = 0; i < rows * 16; ++i) scratch.lane_sum[i] = 0;
  for (int64_t i = 0; i < rows * call.value_stride; ++i) state.acc[i] = 0;

  const int64_t tile_begin = visible_range(call, tile, 0).begin;
  const int64_t tile_end = visible_range(call, tile, tile.token_count - 1).end;
  const int64_t begin = HWY_MAX(tile_begin, segment * kSegment), end = HWY_MIN(tile_end, (segment + 1) * kSegment);
  for (int64_t chunk_begin = begin / kChunk * kChunk; chunk_begin < end; chunk_begin += kChunk) {
    Chunk chunk;
    load_chunk(call, tile, chunk_begin, HWY_MAX(begin, chunk_begin), HWY_MIN(end, chunk_begin + kChunk), scratch,
               chunk);
    for (int64_t r0 = 0; r0 < rows;) {
      const int at_once = rows_at_once(rows - r0);
      const RowGroup group = {r0, visible_range(call, tile, r0 / call.group).begin,
                              visible_range(call, tile, (r0 + at_once - 1) / call.group).end};
      with_rows(at_once,
                [&](auto r) { step<decltype(r)::value>(call, tile, scratch, chunk, chunk_begin, group, state); });
      r0 += at_once;
    }
  }
  const D d;
  for (int64_t r = 0; r < rows; ++r) {
    state.sum[r] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, scratch.lane_sum + r * 16)));
  }
}

void clear(const AttentionCall& call, int64_t rows, const SoftmaxState& state) {
  for (int64_t r = 0; r < rows; ++r) state.max[r] = kNoScore;
  for (int64_t r = 0; r < rows; ++r) state.sum[r] = 0;
  for (int64_t i = 0; i < rows * call.value_stride; ++i) state.acc[i] = 0;
}

// total = total ∪ part. Rows that see nothing of the part are left as they are.
void merge(const AttentionCall& call, int64_t rows, const SoftmaxState& total, const SoftmaxState& part) {
  const D d;
  for (int64_t r = 0; r < rows; ++r) {
    if (part.max[r] == kNoScore) continue;
    const float max = HWY_MAX(total.max[r], part.max[r]);
    const float total_factor = exp2_one(total.max[r] - max), part_factor = exp2_one(part.max[r] - max);
    total.max[r] = max;
    total.sum[r] = total.sum[r] * total_factor + part.sum[r] * part_factor;
    float* to = total.acc + r * call.value_stride;
    const float* from = part.acc + r * call.value_stride;
    for (int64_t c = 0; c < call.value_stride; c += kLanes) {
      const V scaled = hn::Mul(hn::LoadU(d, to + c), hn::Set(d, total_factor));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, from + c), hn::Set(d, part_factor), scaled), d, to + c);
    }
  }
}

// out = acc / sum; a sink adds to the sum and gives no value.
void finish(const AttentionCall& call, const AttentionTile& tile, const SoftmaxState& state) {
  const int64_t first_row = call.sequences[static_cast<size_t>(tile.sequence)].query_begin + tile.token_begin;
  for (int64_t r = 0; r < tile.rows(call); ++r) {
    const int64_t head = tile.kv_head * call.group + r % call.group;
    float sum = state.sum[r], acc_factor = 1.0f;
    if (call.spec->sinks != nullptr) {
      const float sink = call.spec->sinks[head] * kLog2E;
      const float max = HWY_MAX(state.max[r], sink);
      acc_factor = exp2_one(state.max[r] - max);
      sum = sum * acc_factor + exp2_one(sink - max);
    }
    const float factor = acc_factor / sum;
    float* out = call.out.row(first_row + r / call.group) + head * call.value_dim;
    const float* acc = state.acc + r * call.value_stride;
    for (int64_t c = 0; c < call.value_dim; ++c) out[c] = acc[c] * factor;
  }
}

void attend(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch) {
  const int64_t rows = tile.rows(call);
#if QUERN_INTEGER_ATTENTION
  if (call.cache != nullptr && call.cache->key.dtype == KvDType::kI16) {
    pack_integer_queries(call, tile, scratch);
  } else
#endif
  {
    pack_queries(call, tile, scratch.query);
  }
  if (tile.segment >= 0) {
    return attend_segment(call, tile, scratch, tile.segment,
                          SoftmaxState::at(call.partials + tile.partial_offset, rows));
  }
  const SoftmaxState part = SoftmaxState::at(scratch.segment, rows);
  const SoftmaxState total = SoftmaxState::at(scratch.total, rows);
  const int64_t first = visible_range(call, tile, 0).begin / kSegment;
  const int64_t last = (visible_range(call, tile, tile.token_count - 1).end - 1) / kSegment;
  if (first == last) {
    // Merging one state into nothing gives the same bits.
    attend_segment(call, tile, scratch, first, part);
    return finish(call, tile, part);
  }
  clear(call, rows, total);
  for (int64_t segment = first; segment <= last; ++segment) {
    attend_segment(call, tile, scratch, segment, part);
    merge(call, rows, total, part);
  }
  finish(call, tile, total);
}

bool multiplies_integers() {
  return kHasIntegers;
}

void merge_segments(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch) {
  const int64_t rows = tile.rows(call);
  const int64_t elements = SoftmaxState::elements(rows, call.value_stride);
  const SoftmaxState total = SoftmaxState::at(scratch.total, rows);
  clear(call, rows, total);
  for (int64_t s = 0; s < tile.num_segments; ++s) {
    merge(call, rows, total, SoftmaxState::at(call.partials + tile.partial_offset + s * elements, rows));
  }
  finish(call, tile, total);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu::attention {
HWY_EXPORT(multiplies_integers);
HWY_EXPORT(attend);
HWY_EXPORT(merge_segments);

bool has_integers() {
  return HWY_DYNAMIC_DISPATCH(multiplies_integers)();
}

void attend_tile(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(attend)(call, tile, scratch);
}

void merge_tile(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(merge_segments)(call, tile, scratch);
}

}  // namespace quern::cpu::attention
#endif  // HWY_ONCE
