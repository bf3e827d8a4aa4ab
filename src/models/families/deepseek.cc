// DeepSeek-V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437): latent attention, shared and routed experts. V3 routes by
// sigmoid scores with a bias that only chooses ("noaux_tc"). In GGUF both are called deepseek2.
#include <fmt/format.h>

#include <cmath>

#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"
#include "models/rope.h"

namespace quern {
namespace {

// Query and key heads are [not rotated | rotated]; YaRN's temperature goes into the scale.
void set_attention(ModelConfig& config, float mscale_all_dim) {
  AttentionConfig& attention = config.attention;
  const MlaConfig& mla = attention.mla;
  attention.head_dim = mla.nope_dim + mla.rope_dim;
  attention.num_kv_heads = attention.num_heads;
  RopeConfig& rope = config.ropes[0];
  rope.rotary_dim = mla.rope_dim;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(attention.head_dim));
  if (rope.scaling != RopeScaling::kYarn || mscale_all_dim <= 0.0f) return;
  const float mscale = yarn_mscale(rope.factor, mscale_all_dim);
  attention.scale *= mscale * mscale;
}

void read_hf_attention(HfConfigReader& reader, ModelConfig& config) {
  MlaConfig& mla = config.attention.mla;
  mla.q_lora_rank = reader.says_null("q_lora_rank") ? 0 : reader.int_or({"q_lora_rank"}, 1536, {1, kWidthMax});
  mla.kv_lora_rank = reader.require_int({"kv_lora_rank"}, {1, kHeadDimMax});
  mla.nope_dim = reader.require_int({"qk_nope_head_dim"}, {1, kHeadDimMax});
  mla.rope_dim = reader.require_int({"qk_rope_head_dim"}, {1, kHeadDimMax});
  config.attention.value_dim = reader.require_int({"v_head_dim"}, {1, kHeadDimMax});
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
  const bool interleaved = reader.bool_or({"rope_interleave"}, true);
  config.ropes[0].style = interleaved ? RopeStyle::kPairs : RopeStyle::kHalves;
  set_attention(config,
                reader.float_or({"rope_scaling.mscale_all_dim", "rope_parameters.mscale_all_dim"}, 0.0f, 0.0, 1e3));
}

void read_hf_experts(HfConfigReader& reader, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.num_experts = reader.int_or({"n_routed_experts", "num_local_experts"}, 0, {1, kExpertsMax});
  if (moe.num_experts == 0) return;
  moe.intermediate_size = reader.require_int({"moe_intermediate_size"}, {1, kWidthMax});
  moe.shared_intermediate_size = reader.int_or({"n_shared_experts"}, 0, {0, 64}) * moe.intermediate_size;
  moe.router.top_k = reader.require_int({"num_experts_per_tok"}, {1, kExpertsMax});
  moe.router.scale = reader.float_or({"routed_scaling_factor"}, 1.0f, 1e-6, 1e6);
  const int32_t dense = reader.int_or({"first_k_dense_replace"}, 0, {0, kLayersMax});
  const int32_t step = reader.int_or({"moe_layer_freq"}, 1, {1, kLayersMax});
  for (int32_t i = dense; i < config.num_layers; ++i) moe.is_moe[static_cast<size_t>(i)] = i % step == 0 ? 1 : 0;
}

void read_groups(HfConfigReader& reader, RouterSpec& router) {
  router.num_groups = reader.int_or({"n_group"}, 1, {1, kExpertsMax});
  router.top_groups = reader.int_or({"topk_group"}, 1, {1, kExpertsMax});
}

void read_hf_v2(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  read_hf_attention(reader, config);
  read_hf_experts(reader, config);
  config.mlp.bias = presence(reader.bool_or({"mlp_bias"}, false));
  const std::string method = reader.string_or({"topk_method"}, "greedy");
  if (method == "group_limited_greedy") read_groups(reader, config.moe.router);
  if (method != "group_limited_greedy" && method != "greedy") {
    reader.fail({ErrorCode::kUnsupported, "topk_method \"" + method + "\" is not supported"});
  }
}

void read_hf_v3(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  read_hf_attention(reader, config);
  read_hf_experts(reader, config);
  config.moe.router.sigmoid = true;
  config.moe.router.group_score_top2 = true;
  config.moe.router.normalize = reader.bool_or({"norm_topk_prob"}, true);
  config.moe.selection_bias = Presence::kRequired;
  read_groups(reader, config.moe.router);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {.style = RopeStyle::kPairs});
  MlaConfig& mla = config.attention.mla;
  mla.q_lora_rank = reader.int_or({"attention.q_lora_rank"}, 0, {0, kWidthMax});
  mla.kv_lora_rank = reader.require_int({"attention.kv_lora_rank"}, {1, kHeadDimMax});
  mla.rope_dim = reader.require_int({"rope.dimension_count"}, {1, kHeadDimMax});
  // Older files say the sizes of the expanded heads under the usual keys, newer ones (with attn_k_b) here.
  const int32_t key_dim = reader.int_or({"attention.key_length_mla", "attention.key_length"}, 0, {1, kHeadDimMax});
  mla.nope_dim = key_dim - mla.rope_dim;
  config.attention.value_dim =
      reader.int_or({"attention.value_length_mla", "attention.value_length"}, 0, {1, kHeadDimMax});
  // The writer multiplies mscale_all_dim by 0.1; where it is given, mscale equals it and cosines are not scaled.
  const float log_multiplier = reader.float_or({"rope.scaling.yarn_log_multiplier"}, 0.0f, 0.0, 1e3);
  if (log_multiplier > 0.0f) config.ropes[0].attention_factor = 1.0f;
  set_attention(config, log_multiplier * 10.0f);

  read_gguf_moe(reader, config);
  config.moe.selection_bias = Presence::kIfPresent;
  config.moe.router.group_score_top2 = config.moe.router.sigmoid;
}

void hf_names_v3(const ModelConfig& config, TensorNames& names) {
  // The multi-token prediction layer stands behind the last one.
  names.ignored.push_back(fmt::format("model.layers.{}.*", config.num_layers));
}

}  // namespace

const Family kDeepseekV2Family = {
    .name = "deepseek_v2",
    .hf_types = {"deepseek_v2"},
    .read_hf = read_hf_v2,
};

const Family kDeepseekV3Family = {
    .name = "deepseek_v3",
    .hf_types = {"deepseek_v3"},
    .gguf_architectures = {"deepseek2"},
    .read_hf = read_hf_v3,
    .read_gguf = read_gguf,
    .hf_names = hf_names_v3,
};

}  // namespace quern
