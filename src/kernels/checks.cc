#include "kernels/checks.h"

#include <algorithm>

#include "base/check.h"

namespace quern::checks {
namespace {

void mat(Mat x) {
  QUERN_CHECK(x.rows >= 0 && x.cols >= 0 && (x.rows <= 1 || x.stride >= x.cols));
}

int64_t length(const auto& span) {
  return static_cast<int64_t>(span.size());
}

void spans(std::span<const SequenceSpan> sequences, int64_t rows) {
  for (const SequenceSpan& s : sequences) {
    QUERN_CHECK(s.query_begin >= 0 && s.query_count >= 0 && s.context_begin >= 0);
    QUERN_CHECK(int64_t{s.query_begin} + s.query_count <= rows);
  }
}

}  // namespace

void same_shape(Mat x, Mat out) {
  mat(x);
  mat(out);
  QUERN_CHECK(x.rows == out.rows && x.cols == out.cols);
}

void embed(const Weight& table, std::span<const int32_t> ids, Mat out) {
  mat(out);
  QUERN_CHECK(out.rows == length(ids) && out.cols == table.cols);
  for (int32_t id : ids) QUERN_CHECK(id >= 0 && id < table.rows);
}

void matmul(Mat x, std::span<const Device::MatmulTarget> targets) {
  mat(x);
  for (const auto& t : targets) {
    mat(t.out);
    QUERN_CHECK(t.weight != nullptr && t.weight->planes == 1 && t.weight->cols == x.cols);
    QUERN_CHECK(t.out.rows == x.rows && t.out.cols == t.weight->rows);
  }
}

void matmul_experts(Mat x, const Weight& weight, std::span<const ExpertRows> groups, Mat out) {
  mat(x);
  mat(out);
  QUERN_CHECK(weight.cols == x.cols && weight.rows == out.cols);
  for (const ExpertRows& g : groups) {
    QUERN_CHECK(g.expert >= 0 && g.expert < weight.planes && g.source_rows.size() == g.target_rows.size());
    for (int32_t r : g.source_rows) QUERN_CHECK(r >= 0 && r < x.rows);
    for (int32_t r : g.target_rows) QUERN_CHECK(r >= 0 && r < out.rows);
  }
}

void norm(Mat x, const Device::NormSpec& spec, Mat out) {
  same_shape(x, out);
  QUERN_CHECK(spec.width >= 0 && (spec.width == 0 || x.cols % spec.width == 0));
}

void rope(Mat x, const Device::RopeSpec& spec, Mat cosine, Mat sine) {
  mat(x);
  same_shape(cosine, sine);
  QUERN_CHECK(spec.head_dim > 0 && x.cols % spec.head_dim == 0 && cosine.rows == x.rows);
  QUERN_CHECK(spec.offset >= 0 && spec.offset + 2 * cosine.cols <= spec.head_dim);
}

void write_kv(Mat key, Mat value, std::span<const int32_t> slots, const KvStorage& storage, int32_t layer) {
  QUERN_CHECK(layer >= 0 && layer < length(storage.layers));
  const KvLayerSpec& spec = storage.layers[static_cast<size_t>(layer)];
  QUERN_CHECK(key.rows == length(slots) && key.cols == int64_t{spec.num_kv_heads} * spec.key_dim);
  if (!spec.value_in_key) {
    QUERN_CHECK(value.rows == length(slots) && value.cols == int64_t{spec.num_kv_heads} * spec.value_dim);
  }
  for (int32_t slot : slots) QUERN_CHECK(slot >= 0 && slot / kKvBlockSize < storage.num_blocks);
}

void copy_kv_block(const KvStorage& storage, int32_t source, int32_t target) {
  QUERN_CHECK(source >= 0 && source < storage.num_blocks && target >= 0 && target < storage.num_blocks);
}

void attention(Mat query, const KvStorage& storage, int32_t layer, std::span<const SequenceSpan> sequences,
               const AttentionSpec& spec, Mat out) {
  QUERN_CHECK(layer >= 0 && layer < length(storage.layers));
  const KvLayerSpec& kv = storage.layers[static_cast<size_t>(layer)];
  mat(query);
  mat(out);
  QUERN_CHECK(spec.num_heads > 0 && spec.num_heads % kv.num_kv_heads == 0);
  QUERN_CHECK(spec.alibi == nullptr || spec.softcap == 0);
  QUERN_CHECK(query.rows == out.rows && query.cols == int64_t{spec.num_heads} * kv.key_dim);
  QUERN_CHECK(out.cols == int64_t{spec.num_heads} * kv.value_dim);
  spans(sequences, query.rows);
  for (const SequenceSpan& s : sequences) {
    const int64_t positions = int64_t{s.context_begin} + s.query_count;
    QUERN_CHECK(s.query_count == 0 || length(s.blocks) * kKvBlockSize >= positions);
    // Blocks wholly behind a window may have been given back: only those that are read must exist.
    const int64_t first = spec.window > 0 ? std::max<int64_t>(0, int64_t{s.context_begin} - spec.window + 1) : 0;
    for (int64_t b = first / kKvBlockSize; b * kKvBlockSize < positions; ++b) {
      QUERN_CHECK(s.blocks[static_cast<size_t>(b)] >= 0 && s.blocks[static_cast<size_t>(b)] < storage.num_blocks);
    }
  }
}

void attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads, std::span<const SequenceSpan> sequences,
                    const AttentionSpec& spec, Mat out) {
  mat(query);
  mat(key);
  mat(value);
  mat(out);
  QUERN_CHECK(num_kv_heads > 0 && spec.num_heads > 0 && spec.num_heads % num_kv_heads == 0);
  QUERN_CHECK(key.cols % num_kv_heads == 0 && value.cols % num_kv_heads == 0);
  QUERN_CHECK(query.cols == key.cols / num_kv_heads * spec.num_heads);
  QUERN_CHECK(out.cols == value.cols / num_kv_heads * spec.num_heads);
  QUERN_CHECK(query.rows == out.rows && query.rows == key.rows && query.rows == value.rows);
  spans(sequences, query.rows);
}

void gather_rows(Mat x, std::span<const int32_t> rows, Mat out) {
  mat(x);
  mat(out);
  QUERN_CHECK(out.rows == length(rows) && out.cols == x.cols);
  for (int32_t r : rows) QUERN_CHECK(r >= 0 && r < x.rows);
}

void scale_rows(Mat x, std::span<const float> factors, Mat out) {
  same_shape(x, out);
  QUERN_CHECK(length(factors) == x.rows);
}

void route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) {
  mat(logits);
  QUERN_CHECK(spec.top_k > 0 && spec.num_groups > 0 && logits.cols % spec.num_groups == 0);
  QUERN_CHECK(spec.top_groups > 0 && spec.top_groups <= spec.num_groups);
  QUERN_CHECK(spec.top_k <= logits.cols / spec.num_groups * spec.top_groups);
  QUERN_CHECK(length(ids) == logits.rows * spec.top_k && ids.size() == weights.size());
}

void combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out) {
  mat(x);
  mat(out);
  QUERN_CHECK(top_k > 0 && x.rows == out.rows * top_k && x.cols == out.cols && length(weights) == x.rows);
}

}  // namespace quern::checks
