#include "models/check_config.h"

#include "base/check.h"
#include "base/status.h"

namespace quern {
namespace {

Status check_attention(const AttentionConfig& attention) {
  if (attention.num_heads % attention.num_kv_heads != 0) {
    return invalid_file(fmt::format("{} key/value heads do not divide {} attention heads", attention.num_kv_heads,
                                    attention.num_heads));
  }
  const MlaConfig& mla = attention.mla;
  if (mla.kv_lora_rank > 0 &&
      (mla.nope_dim < 1 || mla.rope_dim < 1 || mla.nope_dim + mla.rope_dim != attention.head_dim)) {
    return invalid_file(fmt::format("latent attention heads of {} + {} do not make a key of {}", mla.nope_dim,
                                    mla.rope_dim, attention.head_dim));
  }
  return {};
}

Status check_rope(const RopeConfig& rope, const AttentionConfig& attention) {
  const int32_t rotated_max = attention.mla.kv_lora_rank > 0 ? attention.mla.rope_dim : attention.head_dim;
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > rotated_max) {
    return invalid_file(fmt::format("rotary dimension is {}, must be even and 2 to {}", rope.rotary_dim, rotated_max));
  }
  if (rope.scaling == RopeScaling::kDynamic && rope.rotary_dim < 4) {
    return invalid_file(fmt::format("dynamic rope scaling needs a rotary dimension above 2, not {}", rope.rotary_dim));
  }
  if (rope.scaling == RopeScaling::kLongRope && (rope.short_factors.empty() || rope.long_factors.empty())) {
    return invalid_file("longrope scaling needs short and long factors");
  }
  return {};
}

Status check_moe(const MoeConfig& moe) {
  if (moe.num_experts == 0) return {};
  const RouterSpec& router = moe.router;
  if (router.top_k < 1 || router.top_k > moe.num_experts) {
    return invalid_file(fmt::format("{} experts per token of {}", router.top_k, moe.num_experts));
  }
  if (router.num_groups < 1 || moe.num_experts % router.num_groups != 0 || router.top_groups < 1 ||
      router.top_groups > router.num_groups) {
    return invalid_file(
        fmt::format("{} of {} expert groups of {} experts", router.top_groups, router.num_groups, moe.num_experts));
  }
  const int32_t eligible = moe.num_experts / router.num_groups * router.top_groups;
  if (router.top_k > eligible) {
    return invalid_file(fmt::format("{} experts per token, but only {} are eligible", router.top_k, eligible));
  }
  return {};
}

}  // namespace

Status check_model_config(const ModelConfig& config) {
  if (config.kind != ModelKind::kDecoder) return {};
  const auto layers = static_cast<size_t>(config.num_layers);
  QUERN_CHECK(config.attention.window.size() == layers && config.layer_rope.size() == layers &&
              config.moe.is_moe.size() == layers);
  QUERN_TRY(check_attention(config.attention));
  for (const RopeConfig& rope : config.ropes) QUERN_TRY(check_rope(rope, config.attention));
  QUERN_TRY(check_moe(config.moe));
  bool has_dense = false;
  for (uint8_t is_moe : config.moe.is_moe) has_dense = has_dense || is_moe == 0;
  if (has_dense && config.mlp.intermediate_size < 1) {
    return invalid_file(fmt::format("feed-forward length is {}", config.mlp.intermediate_size));
  }
  return {};
}

}  // namespace quern
