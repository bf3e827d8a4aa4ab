#include "models/bind_mla.h"

#include <cstring>

#include "base/status.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

// kv_b [heads * (nope + value), rank]: per head the key part, then the value part. The value part is read in place. The
// key part is wanted the other way round, [rank, nope], to bring queries into the latent space: a host copy in float32.
Status split_kv_b(TensorBinder& binder, const AttentionConfig& attention, int32_t layer, MlaWeights& out) {
  const int64_t heads = attention.num_heads, nope = attention.mla.nope_dim, rank = attention.mla.kv_lora_rank;
  const int64_t head_rows = nope + attention.value_dim;
  const std::string name = binder.prefixed(binder.names().kv_b, layer);
  QUERN_ASSIGN(const TensorView view, binder.take(name + ".weight", {heads * head_rows, rank}));

  const int64_t key_elements = heads * nope * rank;
  std::byte* keys = binder.host_copy(static_cast<size_t>(key_elements) * sizeof(float));
  std::vector<float> row(static_cast<size_t>(rank));
  std::vector<WeightRows> values;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < nope; ++i) {
      dequantize(view.dtype, rows_of(view, rank, {head * head_rows + i, 1}).bytes, row.data(), rank);
      for (int64_t r = 0; r < rank; ++r) {
        std::memcpy(keys + static_cast<size_t>((head * rank + r) * nope + i) * sizeof(float),
                    &row[static_cast<size_t>(r)], sizeof(float));
      }
    }
    values.push_back(rows_of(view, rank, {head * head_rows + nope, attention.value_dim}));
  }
  const WeightRows key_rows{DType::kF32, heads * rank, nope, keys};
  // What the file has quantised stays: the copy is a float type only because it was turned round.
  if (is_quantized(view.dtype)) binder.set_role(WeightRole::kKept);
  QUERN_ASSIGN(out.key_b, binder.pack({&key_rows, 1}, heads, binder.precision(), name));
  binder.set_role(WeightRole::kAttention);
  QUERN_ASSIGN(out.value_b, binder.pack(values, heads, binder.precision(), name));
  return {};
}

Status bind_split_kv_b(TensorBinder& binder, const AttentionConfig& attention, int32_t layer, MlaWeights& out) {
  const int64_t heads = attention.num_heads, nope = attention.mla.nope_dim, rank = attention.mla.kv_lora_rank;
  const std::string key_name = binder.prefixed(binder.names().key_b, layer);
  QUERN_ASSIGN(const TensorView key, binder.take(key_name + ".weight", {heads, rank, nope}));
  const WeightRows key_rows = rows_of(key, nope);
  QUERN_ASSIGN(out.key_b, binder.pack({&key_rows, 1}, heads, binder.precision(), key_name));

  const std::string value_name = binder.prefixed(binder.names().value_b, layer);
  QUERN_ASSIGN(const TensorView value, binder.take(value_name + ".weight", {heads, attention.value_dim, rank}));
  const WeightRows value_rows = rows_of(value, rank);
  QUERN_ASSIGN(out.value_b, binder.pack({&value_rows, 1}, heads, binder.precision(), value_name));
  return {};
}

}  // namespace

Status bind_mla(TensorBinder& binder, const ModelConfig& config, int32_t layer, LayerWeights& out) {
  const AttentionConfig& attention = config.attention;
  const MlaConfig& mla = attention.mla;
  const TensorNames& names = binder.names();
  const int64_t hidden = config.hidden_size;
  const int64_t query_rows = int64_t{attention.num_heads} * attention.head_dim;
  if (mla.q_lora_rank > 0) {
    QUERN_TRY(binder.linear(names.query_a, layer, mla.q_lora_rank, hidden, attention.qkv_bias, out.mla.query_a));
    QUERN_TRY(binder.norm(names.query_a_norm, layer, config.norm, mla.q_lora_rank, out.mla.query_a_norm));
    QUERN_TRY(binder.linear(names.query_b, layer, query_rows, mla.q_lora_rank, Presence::kAbsent, out.mla.query_b));
  } else {
    QUERN_TRY(binder.linear(names.query, layer, query_rows, hidden, Presence::kAbsent, out.query));
  }
  const int64_t latent = mla.kv_lora_rank + mla.rope_dim;
  QUERN_TRY(binder.linear(names.kv_a, layer, latent, hidden, attention.qkv_bias, out.mla.kv_a));
  QUERN_TRY(binder.norm(names.kv_a_norm, layer, config.norm, mla.kv_lora_rank, out.mla.kv_a_norm));
  if (binder.has(names.key_b, layer)) return bind_split_kv_b(binder, attention, layer, out.mla);
  return split_kv_b(binder, attention, layer, out.mla);
}

}  // namespace quern
