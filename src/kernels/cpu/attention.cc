#include "kernels/cpu/attention.h"

#include <algorithm>

namespace quern::cpu {
namespace {

// Rows of a tile: enough that converting a chunk of keys and values costs little beside using it, and where the group
// allows whole turns of the kernels, which take twelve at a time (or six).
constexpr int64_t kTileRows = 72;
constexpr int64_t kTileRowsMin = 36;
// Below this many tiles per thread, long contexts are split so that all threads have work.
constexpr int64_t kTilesPerThread = 8;

int64_t tokens_per_tile(const AttentionCall& call) {
  const int64_t most = std::max<int64_t>(1, kTileRows / call.group);
  for (int64_t tokens = most; tokens * call.group >= kTileRowsMin; --tokens) {
    if (tokens * call.group % AttentionScratch::kRowsMax == 0) return tokens;
  }
  return most;
}

void grow(std::vector<float>& memory, int64_t elements) {
  memory.resize(std::max(memory.size(), static_cast<size_t>(elements)));
}

}  // namespace

void CpuAttention::attention(ThreadPool& pool, Mat query, const KvLayer& layer, std::span<const SequenceSpan> sequences,
                             const AttentionSpec& spec, Mat out) {
  AttentionCall call;
  call.query = query;
  call.out = out;
  call.cache = &layer;
  call.sequences = sequences;
  call.spec = &spec;
  call.group = spec.num_heads / layer.spec.num_kv_heads;
  call.key_dim = layer.spec.key_dim;
  call.value_dim = layer.spec.value_dim;
  run(pool, call, layer.spec.num_kv_heads);
}

void CpuAttention::attention_full(ThreadPool& pool, Mat query, Mat key, Mat value, int32_t num_kv_heads,
                                  std::span<const SequenceSpan> sequences, const AttentionSpec& spec, Mat out) {
  AttentionCall call;
  call.query = query;
  call.out = out;
  call.key = key;
  call.value = value;
  call.sequences = sequences;
  call.spec = &spec;
  call.group = spec.num_heads / num_kv_heads;
  call.key_dim = key.cols / num_kv_heads;
  call.value_dim = value.cols / num_kv_heads;
  run(pool, call, num_kv_heads);
}

// Plans the tiles of all sequences. The last queries of a sequence see most, so they come first: short tiles at the end
// even out the threads.
void CpuAttention::cut(const AttentionCall& call, int64_t num_kv_heads, int32_t num_threads) {
  tiles_.clear();
  merges_.clear();
  const int64_t step = tokens_per_tile(call);
  int64_t count = 0;
  for (const SequenceSpan& s : call.sequences) count += (s.query_count + step - 1) / step * num_kv_heads;
  const bool scarce = num_threads > 1 && count < kTilesPerThread * num_threads;
  int64_t partial_elements = 0;
  for (size_t i = 0; i < call.sequences.size(); ++i) {
    const int64_t tokens = call.sequences[i].query_count;
    for (int64_t begin = (tokens - 1) / step * step; tokens > 0 && begin >= 0; begin -= step) {
      for (int64_t h = 0; h < num_kv_heads; ++h) {
        AttentionTile tile;
        tile.sequence = static_cast<int32_t>(i);
        tile.kv_head = static_cast<int32_t>(h);
        tile.token_begin = static_cast<int32_t>(begin);
        tile.token_count = static_cast<int32_t>(std::min(step, tokens - begin));
        const int64_t split_elements = scarce ? split(call, tile, partial_elements) : 0;
        if (split_elements == 0) tiles_.push_back(tile);
        partial_elements += split_elements;
      }
    }
  }
  grow(partials_, partial_elements);
}

// Cuts `tile` into its segments and returns how many elements their states take from `partial_begin`; 0: one segment
// only. `partial` holds an offset until partials_ has its final size.
int64_t CpuAttention::split(const AttentionCall& call, const AttentionTile& tile, int64_t partial_begin) {
  const int64_t first = visible_range(call, tile, 0).begin / kSegment;
  const int64_t last = (visible_range(call, tile, tile.token_count - 1).end - 1) / kSegment;
  if (first == last) return 0;
  const int64_t elements = SoftmaxState::elements(tile.rows(call), call.value_stride);
  for (int64_t s = first; s <= last; ++s) {
    AttentionTile part = tile;
    part.segment = static_cast<int32_t>(s);
    part.partial_offset = partial_begin + (s - first) * elements;
    tiles_.push_back(part);
  }
  AttentionTile merge = tile;
  merge.num_segments = static_cast<int32_t>(last - first + 1);
  merge.partial_offset = partial_begin;
  merges_.push_back(merge);
  return merge.num_segments * elements;
}

void CpuAttention::run(ThreadPool& pool, const AttentionCall& call_without_stride, int64_t num_kv_heads) {
  AttentionCall call = call_without_stride;
  call.value_stride = (call.value_dim + kKvBlockSize - 1) / kKvBlockSize * kKvBlockSize;
  cut(call, num_kv_heads, pool.num_threads());
  call.partials = partials_.data();
  const int64_t rows = tokens_per_tile(call) * call.group;
  const int64_t per_thread = AttentionScratch::elements(call, rows);
  grow(scratch_, per_thread * pool.num_threads());
  const auto scratch = [&](int32_t thread) {
    return AttentionScratch::carve(scratch_.data() + thread * per_thread, call, rows);
  };
  pool.run(static_cast<int64_t>(tiles_.size()), [&](int64_t task, int32_t thread) {
    attention::attend_tile(call, tiles_[static_cast<size_t>(task)], scratch(thread));
  });
  pool.run(static_cast<int64_t>(merges_.size()), [&](int64_t task, int32_t thread) {
    attention::merge_tile(call, merges_[static_cast<size_t>(task)], scratch(thread));
  });
}

}  // namespace quern::cpu
