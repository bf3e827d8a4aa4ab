// The unit of work of attention: a tile of consecutive queries of one sequence, with all query heads that share one kv
// head.
//
// Positions are cut at fixed places, whatever the tile, the batch or the threads, so that a query's result is one fixed
// sequence of operations (online softmax: Milakov & Gimelshein 2018; splitting and merging: Dao et al. 2023,
// Flash-Decoding):
//
//   block      16 positions   unit of storage; what no query of a group of rows can see is skipped
//   chunk      64 positions   scores, their maximum, weights, then sum of values: one step of the online softmax
//   segment   256 positions   starts from nothing; segments are merged in ascending order
//
// A masked position adds an exact zero, so the same bits come out whether a tile holds one query or many.
//
// Keys and values of 16-bit integers (KvDType::kI16) are multiplied as such where the instruction set adds up pairs of
// products (AVX2, AVX-512): a query becomes codes with one scale, as a key is; a row's weights of a chunk are
// multiplied by the values' scales and become codes with one scale. Sums of a score and of a chunk's values are exact
// integers.
// Rows of a tile: row = token * group + head within the group. Scores are kept in units of log2.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cpu/kv_storage.h"
#include "kernels/device.h"

namespace quern::cpu {

inline constexpr int64_t kChunk = 64;
inline constexpr int64_t kSegment = 256;
inline constexpr int64_t kChunkBlocks = kChunk / kKvBlockSize;

// One call, shared by all its tiles.
struct AttentionCall {
  Mat query;                       // [T, heads * key_dim]
  Mat out;                         // [T, heads * value_dim]
  const KvLayer* cache = nullptr;  // paged keys and values, causal; else the rows of key and value, bidirectional
  Mat key;                         // [T, kv_heads * key_dim]
  Mat value;                       // [T, kv_heads * value_dim]
  std::span<const SequenceSpan> sequences;
  const AttentionSpec* spec = nullptr;
  int64_t group = 1;  // query heads per kv head
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t value_stride = 0;   // value_dim rounded up to 16
  float* partials = nullptr;  // states of the segments of split tiles
};

struct AttentionTile {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int32_t token_begin = 0;  // within the sequence's queries
  int32_t token_count = 0;
  int32_t segment = -1;      // >= 0: only this segment, its state goes to partial_offset
  int32_t num_segments = 0;  // merging: how many states lie at partial_offset
  int64_t partial_offset = 0;

  int64_t rows(const AttentionCall& call) const { return token_count * call.group; }
};

// Running state of the online softmax of a tile's rows. Lies in memory as max, sum (each padded to whole lines), acc.
struct SoftmaxState {
  float* max;  // [rows]
  float* sum;  // [rows]
  float* acc;  // [rows, value_stride]: sum of 2^(score - max) * value

  static int64_t padded(int64_t rows) { return (rows + 15) / 16 * 16; }
  static int64_t elements(int64_t rows, int64_t value_stride) { return 2 * padded(rows) + rows * value_stride; }
  static SoftmaxState at(float* memory, int64_t rows) {
    return {memory, memory + padded(rows), memory + 2 * padded(rows)};
  }
};

// A thread's working memory, carved from one array of `elements` floats.
struct AttentionScratch {
  float* query;        // [rows, key_dim], packed for the score kernel: floats, or pairs of codes in half the room
  float* query_scale;  // [rows], of codes
  float* keys;         // [kChunkBlocks][key_dim][16]
  float* values;       // [kChunk, stride]: the chunk's values, or its keys before they are transposed
  float* scores;       // [kRowsMax, kChunk]
  int16_t* weights;    // [kRowsMax, kChunk]: codes of scores that became weights
  float* lane_sum;     // [rows, 16]: sums of weights, one per lane
  float* segment;      // SoftmaxState
  float* total;        // SoftmaxState

  static constexpr int64_t kRowsMax = 12;  // rows that a kernel takes at a time, at most

  // Null: only counts.
  static AttentionScratch carve(float* memory, const AttentionCall& call, int64_t rows) {
    const int64_t stride = (std::max(call.key_dim, call.value_dim) + 15) / 16 * 16;
    AttentionScratch s;
    int64_t used = 0;
    const auto take = [memory, &used](int64_t elements) {
      float* const part = memory == nullptr ? nullptr : memory + used;
      used += (elements + 15) / 16 * 16;
      return part;
    };
    s.query = take(rows * call.key_dim);
    s.query_scale = take(rows);
    s.keys = take(kChunk * call.key_dim);
    s.values = take(kChunk * stride);
    s.scores = take(kRowsMax * kChunk);
    s.weights = reinterpret_cast<int16_t*>(take(kRowsMax * kChunk / 2));
    s.lane_sum = take(rows * 16);
    s.segment = take(SoftmaxState::elements(rows, call.value_stride));
    s.total = take(SoftmaxState::elements(rows, call.value_stride));
    s.elements_used = used;
    return s;
  }
  static int64_t elements(const AttentionCall& call, int64_t rows) { return carve(nullptr, call, rows).elements_used; }
  int64_t elements_used;
};

// Positions that row `r` of a tile sees: [begin, end) of its sequence.
struct VisibleRange {
  int64_t begin;
  int64_t end;
};
inline VisibleRange visible_range(const AttentionCall& call, const AttentionTile& tile, int64_t token) {
  const SequenceSpan& s = call.sequences[static_cast<size_t>(tile.sequence)];
  const int64_t window = call.spec->window;
  const int64_t position = s.context_begin * (call.cache != nullptr) + tile.token_begin + token;
  const int64_t begin = window > 0 && position >= window ? position - window + 1 : 0;
  if (call.cache != nullptr) return {begin, position + 1};
  const int64_t end = window > 0 && window < s.query_count - position ? position + window : s.query_count;
  return {begin, end};
}

namespace attention {
// Whether 16-bit integers are multiplied as such by the instruction set in use.
bool has_integers();
// Computes a tile: its rows of `out`, or one segment's state.
void attend_tile(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch);
// Merges the states of a tile's segments in order and writes its rows of `out`.
void merge_tile(const AttentionCall& call, const AttentionTile& tile, const AttentionScratch& scratch);
}  // namespace attention

}  // namespace quern::cpu
