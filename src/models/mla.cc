#include "models/mla.h"

#include "base/status.h"

namespace quern {
namespace {

// Head h of token t is row t * heads + h of a matrix seen as [T * heads, …].
void group_by_head(int32_t heads, int64_t tokens, MlaScratch& scratch) {
  scratch.groups.clear();
  for (int32_t head = 0; head < heads; ++head) {
    int32_t* rows = scratch.head_rows.data() + head * tokens;
    for (int64_t t = 0; t < tokens; ++t) rows[t] = static_cast<int32_t>(t * heads + head);
    const std::span<const int32_t> part(rows, static_cast<size_t>(tokens));
    scratch.groups.push_back({head, part, part});
  }
}

void latent_norm(Device& device, const ModelConfig& config, const NormWeights& weights, Mat x) {
  Device::NormSpec spec;
  spec.weight = weights.weight;
  spec.epsilon = config.attention.mla.norm_epsilon;
  device.rms_norm(x, spec, x);
}

}  // namespace

Status reserve_mla(Device& device, const ModelConfig& config, int64_t tokens_max, MlaScratch& scratch) {
  const AttentionConfig& attention = config.attention;
  const MlaConfig& mla = attention.mla;
  const int64_t heads = attention.num_heads, latent = mla.kv_lora_rank + mla.rope_dim;
  if (mla.q_lora_rank > 0) {
    QUERN_ASSIGN(scratch.query_low, device.allocate(tokens_max * mla.q_lora_rank));
  }
  QUERN_ASSIGN(scratch.query, device.allocate(tokens_max * heads * attention.head_dim));
  QUERN_ASSIGN(scratch.absorbed, device.allocate(tokens_max * heads * latent));
  QUERN_ASSIGN(scratch.latent, device.allocate(tokens_max * latent));
  QUERN_ASSIGN(scratch.attended, device.allocate(tokens_max * heads * mla.kv_lora_rank));
  scratch.head_rows.resize(static_cast<size_t>(tokens_max * heads));
  scratch.groups.reserve(static_cast<size_t>(heads));
  return {};
}

void project_latent(Device& device, const ModelConfig& config, const LayerWeights& weights, MlaScratch& scratch,
                    Mat x) {
  const AttentionConfig& attention = config.attention;
  const MlaConfig& mla = attention.mla;
  const Mat query = scratch.query->mat(x.rows, int64_t{attention.num_heads} * attention.head_dim);
  const Mat latent = scratch.latent->mat(x.rows, mla.kv_lora_rank + mla.rope_dim);
  if (mla.q_lora_rank > 0) {
    const Mat low = scratch.query_low->mat(x.rows, mla.q_lora_rank);
    const Device::MatmulTarget targets[] = {{weights.mla.query_a.weight, weights.mla.query_a.bias, low},
                                            {weights.mla.kv_a.weight, weights.mla.kv_a.bias, latent}};
    device.matmul(x, targets);
    latent_norm(device, config, weights.mla.query_a_norm, low);
    const Device::MatmulTarget up{weights.mla.query_b.weight, weights.mla.query_b.bias, query};
    device.matmul(low, {&up, 1});
  } else {
    const Device::MatmulTarget targets[] = {{weights.query.weight, weights.query.bias, query},
                                            {weights.mla.kv_a.weight, weights.mla.kv_a.bias, latent}};
    device.matmul(x, targets);
  }
  latent_norm(device, config, weights.mla.kv_a_norm, latent.slice_cols(0, mla.kv_lora_rank));
}

void absorb_query(Device& device, const ModelConfig& config, const LayerWeights& weights, MlaScratch& scratch,
                  int64_t tokens) {
  const AttentionConfig& attention = config.attention;
  const MlaConfig& mla = attention.mla;
  const int64_t rows = tokens * attention.num_heads;
  const Mat query = scratch.query->mat(rows, attention.head_dim);
  const Mat absorbed = scratch.absorbed->mat(rows, mla.kv_lora_rank + mla.rope_dim);
  group_by_head(attention.num_heads, tokens, scratch);
  device.matmul_experts(query.slice_cols(0, mla.nope_dim), *weights.mla.key_b, nullptr, scratch.groups,
                        absorbed.slice_cols(0, mla.kv_lora_rank));
  device.copy(query.slice_cols(mla.nope_dim, mla.rope_dim), absorbed.slice_cols(mla.kv_lora_rank, mla.rope_dim));
}

void expand_values(Device& device, const ModelConfig& config, const LayerWeights& weights, MlaScratch& scratch,
                   int64_t tokens, Mat out) {
  const AttentionConfig& attention = config.attention;
  const int64_t rows = tokens * attention.num_heads;
  const Mat attended = scratch.attended->mat(rows, attention.mla.kv_lora_rank);
  const Mat values{out.data, rows, attention.value_dim, attention.value_dim};
  device.matmul_experts(attended, *weights.mla.value_b, nullptr, scratch.groups, values);
}

}  // namespace quern
