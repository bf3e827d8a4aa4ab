// gpt-oss (OpenAI, model card 2508.10925): experts with biases and a clamped swiglu, attention sinks, a window on every
// second layer, YaRN.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

bool sliding(int32_t layer) {
  return layer % 2 == 0;
}

void set_traits(ModelConfig& config) {
  config.attention.sinks = true;
  MoeConfig& moe = config.moe;
  moe.router.softmax_after_top_k = true;
  moe.router_bias = Presence::kRequired;
  moe.expert_bias = Presence::kRequired;
  moe.is_moe.assign(moe.is_moe.size(), 1);
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.theta = 150000.0f, .epsilon = 1e-5f});
  set_traits(config);
  const bool bias = reader.bool_or({"attention_bias"}, true);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
  config.moe.num_experts = reader.int_or({"num_local_experts"}, 128, {1, kExpertsMax});
  config.moe.router.top_k = reader.int_or({"num_experts_per_tok", "experts_per_token"}, 4, {1, kExpertsMax});
  config.moe.intermediate_size = config.mlp.intermediate_size;
  config.moe.clamp_limit = reader.float_or({"swiglu_limit"}, 7.0f, 1e-6, 1e6);
  const int32_t window = read_hf_window(reader, 128);
  read_hf_windows(reader, config, window, sliding);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  read_gguf_moe(reader, config);
  set_traits(config);
  config.attention.qkv_bias = Presence::kRequired;
  config.attention.output_bias = Presence::kRequired;
  config.moe.clamp_limit = 7.0f;
  read_gguf_windows(reader, config, sliding);
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.router = "layers.{}.mlp.router";
  names.interleaved_gate_up = "layers.{}.mlp.experts.gate_up_proj";
  names.interleaved_down = "layers.{}.mlp.experts.down_proj";
}

void gguf_names(const ModelConfig&, TensorNames& names) {
  names.mlp_norm = "blk.{}.post_attention_norm";
}

}  // namespace

const Family kGptOssFamily = {
    .name = "gpt_oss",
    .hf_types = {"gpt_oss"},
    .gguf_architectures = {"gpt-oss"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
    .gguf_names = gguf_names,
};

}  // namespace quern
