// Gemma 2 (arXiv 2408.00118): norms before and after both parts of a layer, soft caps, a window on every second layer.
// Checkpoints store norm weights as w and mean 1 + w; GGUF stores 1 + w.
#include <cmath>

#include "models/families/families.h"
#include "models/families/gemma.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

bool sliding(int32_t layer) {
  return layer % 2 == 0;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .activation = "gelu_pytorch_tanh"});
  set_gemma_traits(config, BlockLayout::kSandwich);
  config.norm.weight_offset = 1.0f;
  const float scalar = reader.float_or({"query_pre_attn_scalar"}, 256.0f, 1e-3, 1e9);
  config.attention.scale = 1.0f / std::sqrt(scalar);
  config.attention.softcap = read_hf_softcap(reader, "attn_logit_softcapping", 50.0f);
  config.logits_softcap = read_hf_softcap(reader, "final_logit_softcapping", 30.0f);
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
  const int32_t window = read_hf_window(reader, 4096);
  read_hf_windows(reader, config, window, sliding);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_gemma_traits(config, BlockLayout::kSandwich);
  config.attention.softcap = reader.float_or({"attn_logit_softcapping"}, 50.0f, 0.0, 1e9);
  config.logits_softcap = reader.float_or({"final_logit_softcapping"}, 30.0f, 0.0, 1e9);
  read_gguf_windows(reader, config, sliding);
  // The metadata has no query_pre_attn_scalar. It is head_dim but for the 27B model, where it is hidden / heads.
  if (config.num_layers == 46) {
    config.attention.scale =
        std::sqrt(static_cast<float>(config.attention.num_heads) / static_cast<float>(config.hidden_size));
  }
}

}  // namespace

void set_gemma_traits(ModelConfig& config, BlockLayout block) {
  config.block = block;
  config.mlp.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
}

void set_gemma_sandwich_names(const ModelConfig&, TensorNames& names) {
  names.attention_post_norm = "layers.{}.post_attention_layernorm";
  names.mlp_norm = "layers.{}.pre_feedforward_layernorm";
  names.mlp_post_norm = "layers.{}.post_feedforward_layernorm";
}

const Family kGemma2Family = {
    .name = "gemma2",
    .hf_types = {"gemma2"},
    .gguf_architectures = {"gemma2"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = set_gemma_sandwich_names,
};

}  // namespace quern
