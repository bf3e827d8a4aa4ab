// GPT-2 (Radford et al. 2019): layer norms, learned positions, no gate. Checkpoints store matrices as [in, out].
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  config.norm.kind = NormKind::kLayer;
  config.norm.bias = Presence::kRequired;
  config.attention.layout = QkvLayout::kFused;
  config.attention.qkv_bias = Presence::kRequired;
  config.attention.output_bias = Presence::kRequired;
  config.mlp.gated = false;
  config.mlp.bias = Presence::kRequired;
  config.learned_positions = config.context_length;
  config.ropes.clear();
  config.layer_rope.assign(config.layer_rope.size(), -1);
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .epsilon = 1e-5f, .activation = "gelu_new"});
  set_traits(config);
  if (!reader.bool_or({"scale_attn_weights"}, true)) config.attention.scale = 1.0f;
  config.attention.scale_by_inverse_layer = reader.bool_or({"scale_attn_by_inverse_layer_idx"}, false);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config);
  config.mlp.activation = Activation::kGeluTanh;
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.prefixes = {"transformer.", ""};
  names.transposed = true;
  names.embed = "wte";
  names.positions = "wpe";
  names.final_norm = "ln_f";
  names.attention_norm = "h.{}.ln_1";
  names.mlp_norm = "h.{}.ln_2";
  names.qkv = "h.{}.attn.c_attn";
  names.attention_output = "h.{}.attn.c_proj";
  names.up = "h.{}.mlp.c_fc";
  names.down = "h.{}.mlp.c_proj";
  names.ignored = {"*h.*.attn.bias", "*h.*.attn.masked_bias"};  // the causal mask
}

}  // namespace

const Family kGpt2Family = {
    .name = "gpt2",
    .hf_types = {"gpt2"},
    .gguf_architectures = {"gpt2"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
