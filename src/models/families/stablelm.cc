// StableLM 2 (arXiv 2402.17834): llama with layer norms and rotation of a quarter of each head; the 12B model has a
// parallel residual and a layer norm of its own for every head.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config, bool parallel, bool head_norms) {
  config.block = parallel ? BlockLayout::kParallelShared : BlockLayout::kPre;
  config.norm.kind = NormKind::kLayer;
  config.norm.bias = Presence::kRequired;
  if (!head_norms) return;
  config.attention.qk_norm = QkNorm::kPerHeadWeights;
  config.attention.qk_norm_config.kind = NormKind::kLayer;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.epsilon = 1e-5f, .partial_rotary = 0.25f});
  set_traits(config, reader.bool_or({"use_parallel_residual"}, false), reader.bool_or({"qk_layernorm"}, false));
  config.attention.qkv_bias = presence(reader.bool_or({"use_qkv_bias"}, false));
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config, !reader.has_tensor("blk.0.ffn_norm.weight"), reader.has_tensor("blk.0.attn_q_norm.weight"));
  config.attention.qkv_bias = Presence::kIfPresent;
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.query_norm = "layers.{}.self_attn.q_layernorm.norms.{}";
  names.key_norm = "layers.{}.self_attn.k_layernorm.norms.{}";
}

}  // namespace

const Family kStablelmFamily = {
    .name = "stablelm",
    .hf_types = {"stablelm", "stablelm_epoch"},
    .gguf_architectures = {"stablelm"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
