// Phi-1, 1.5 and 2 (arXiv 2306.11644): attention and feed-forward side by side behind one layer norm, biases
// everywhere.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  config.block = BlockLayout::kParallelShared;
  config.norm.kind = NormKind::kLayer;
  config.norm.bias = Presence::kRequired;
  config.attention.qkv_bias = Presence::kRequired;
  config.attention.output_bias = Presence::kRequired;
  config.mlp.gated = false;
  config.mlp.bias = Presence::kRequired;
  config.output_bias = Presence::kRequired;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.epsilon = 1e-5f, .partial_rotary = 0.5f, .activation = "gelu_new", .context = 2048});
  set_traits(config);
  if (!reader.bool_or({"qk_layernorm"}, false)) return;
  config.attention.qk_norm = QkNorm::kPerHead;
  config.attention.qk_norm_config = config.norm;
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config);
  config.mlp.activation = Activation::kGeluTanh;
  if (reader.has_tensor("blk.0.attn_qkv.weight")) config.attention.layout = QkvLayout::kFused;
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.final_norm = "final_layernorm";
  names.attention_output = "layers.{}.self_attn.dense";
  names.query_norm = "layers.{}.self_attn.q_layernorm";
  names.key_norm = "layers.{}.self_attn.k_layernorm";
  names.up = "layers.{}.mlp.fc1";
  names.down = "layers.{}.mlp.fc2";
}

}  // namespace

const Family kPhiFamily = {
    .name = "phi",
    .hf_types = {"phi"},
    .gguf_architectures = {"phi2"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
