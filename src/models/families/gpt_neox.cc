// GPT-NeoX and Pythia (arXiv 2204.06745): layer norms, biases, rotation of a part of each head, one fused matrix that
// holds query, key and value head by head. GGUF stores all query rows first.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config, bool parallel) {
  config.block = parallel ? BlockLayout::kParallel : BlockLayout::kPre;
  config.norm.kind = NormKind::kLayer;
  config.norm.bias = Presence::kRequired;
  config.mlp.gated = false;
  config.mlp.bias = Presence::kRequired;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.epsilon = 1e-5f, .partial_rotary = 0.25f, .activation = "gelu"});
  set_traits(config, reader.bool_or({"use_parallel_residual"}, true));
  config.attention.layout = QkvLayout::kFusedPerGroup;
  const bool bias = reader.bool_or({"attention_bias"}, true);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config, reader.bool_or({"use_parallel_residual"}, true));
  config.attention.layout = QkvLayout::kFused;
  config.attention.qkv_bias = Presence::kIfPresent;
  config.attention.output_bias = Presence::kIfPresent;
  config.mlp.activation = Activation::kGelu;
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.prefixes = {"gpt_neox."};
  names.outputs = {"embed_out"};
  names.embed = "embed_in";
  names.final_norm = "final_layer_norm";
  names.qkv = "layers.{}.attention.query_key_value";
  names.attention_output = "layers.{}.attention.dense";
  names.up = "layers.{}.mlp.dense_h_to_4h";
  names.down = "layers.{}.mlp.dense_4h_to_h";
  // The causal mask and the rotary table that older checkpoints carry.
  names.ignored = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"};
}

}  // namespace

const Family kGptNeoxFamily = {
    .name = "gpt_neox",
    .hf_types = {"gpt_neox"},
    .gguf_architectures = {"gptneox"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
