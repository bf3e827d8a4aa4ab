// GLM-4 (arXiv 2406.12793), as "glm" with two norms per layer and as "glm4" with four; rotary pairs on half of each
// head, one fused gate and up projection.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config, BlockLayout block) {
  config.block = block;
  config.mlp.layout = GateUpLayout::kFused;
  config.ropes[0].style = RopeStyle::kPairs;
}

void read_hf(HfConfigReader& reader, ModelConfig& config, BlockLayout block) {
  read_hf_common(reader, config, {.epsilon = 1.5625e-7f, .partial_rotary = 0.5f, .context = 131072});
  set_traits(config, block);
  config.attention.qkv_bias = presence(reader.bool_or({"attention_bias"}, false));
}
void read_hf_glm(HfConfigReader& reader, ModelConfig& config) {
  read_hf(reader, config, BlockLayout::kPre);
}
void read_hf_glm4(HfConfigReader& reader, ModelConfig& config) {
  read_hf(reader, config, BlockLayout::kSandwich);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config, BlockLayout block) {
  read_gguf_common(reader, config, {});
  set_traits(config, block);
  config.attention.qkv_bias = Presence::kIfPresent;
  if (reader.has_tensor("blk.0.attn_qkv.weight")) config.attention.layout = QkvLayout::kFused;
}
void read_gguf_glm(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf(reader, config, BlockLayout::kPre);
}
void read_gguf_glm4(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf(reader, config, BlockLayout::kSandwich);
}

void hf_names_glm(const ModelConfig&, TensorNames& names) {
  names.gate_up = "layers.{}.mlp.gate_up_proj";
}

void hf_names_glm4(const ModelConfig& config, TensorNames& names) {
  hf_names_glm(config, names);
  names.attention_post_norm = "layers.{}.post_self_attn_layernorm";
  names.mlp_post_norm = "layers.{}.post_mlp_layernorm";
}

}  // namespace

const Family kGlmFamily = {
    .name = "glm",
    .hf_types = {"glm"},
    .gguf_architectures = {"chatglm"},
    .read_hf = read_hf_glm,
    .read_gguf = read_gguf_glm,
    .hf_names = hf_names_glm,
};

const Family kGlm4Family = {
    .name = "glm4",
    .hf_types = {"glm4"},
    .gguf_architectures = {"glm4"},
    .read_hf = read_hf_glm4,
    .read_gguf = read_gguf_glm4,
    .hf_names = hf_names_glm4,
};

}  // namespace quern
