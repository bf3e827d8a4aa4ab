// Falcon (arXiv 2311.16867) in its layouts: 7B (one key/value head, one norm), 40B (grouped heads, two norms side by
// side), 11B (grouped heads, one norm), and without parallel residual (falcon-rw).
#include <bit>
#include <cmath>

#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  config.norm.kind = NormKind::kLayer;
  config.norm.bias = Presence::kRequired;
  config.mlp.gated = false;
}

// ALiBi (arXiv 2108.12409) instead of rotation: 2^(-8 i / p) for the first p heads, p the largest power of two that
// fits, then every other slope of twice as many heads. In bfloat16, as the official code has them.
void set_alibi(ModelConfig& config) {
  const int32_t heads = config.attention.num_heads;
  const auto power = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(heads)));
  std::vector<float>& slopes = config.attention.alibi;
  for (int32_t i = 0; i < heads; ++i) {
    const int32_t step = i < power ? 2 * (i + 1) : 2 * (i - power) + 1;
    slopes.push_back(bf16_to_f32(f32_to_bf16(static_cast<float>(std::exp2(-4.0 * step / power)))));
  }
  config.ropes.clear();
  config.layer_rope.assign(config.layer_rope.size(), -1);
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .epsilon = 1e-5f, .activation = "gelu", .context = 2048});
  set_traits(config);
  config.mlp.activation = read_hf_activation(reader, "activation", "gelu");
  if (reader.bool_or({"alibi"}, false)) set_alibi(config);
  AttentionConfig& attention = config.attention;
  const bool grouped = reader.bool_or({"new_decoder_architecture"}, false);
  const bool one_head = !grouped && reader.bool_or({"multi_query"}, true);
  attention.num_kv_heads = one_head  ? 1
                           : grouped ? reader.int_or({"num_kv_heads", "n_head_kv"}, attention.num_heads, {1, kHeadsMax})
                                     : attention.num_heads;
  attention.layout = one_head ? QkvLayout::kFused : QkvLayout::kFusedPerGroup;
  const bool bias = reader.bool_or({"bias"}, false);
  attention.qkv_bias = presence(bias);
  attention.output_bias = presence(bias);
  config.mlp.bias = presence(bias);
  const int32_t num_norms = reader.int_or({"num_ln_in_parallel_attn"}, grouped ? 2 : 1, {1, 2});
  const bool parallel = grouped || reader.bool_or({"parallel_attn"}, true);
  config.block = !parallel ? BlockLayout::kPre : num_norms == 2 ? BlockLayout::kParallel : BlockLayout::kParallelShared;
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config);
  config.mlp.activation = Activation::kGelu;
  config.attention.layout = QkvLayout::kFused;
  const bool two_norms = reader.has_tensor("blk.0.attn_norm_2.weight");
  config.block = two_norms ? BlockLayout::kParallel : BlockLayout::kParallelShared;
}

void hf_names(const ModelConfig& config, TensorNames& names) {
  names.prefixes = {"transformer."};
  names.embed = "word_embeddings";
  names.final_norm = "ln_f";
  const bool two_norms = config.block == BlockLayout::kParallel;
  names.attention_norm = two_norms ? "h.{}.ln_attn" : "h.{}.input_layernorm";
  names.mlp_norm = two_norms ? "h.{}.ln_mlp" : "h.{}.post_attention_layernorm";
  names.qkv = "h.{}.self_attention.query_key_value";
  names.attention_output = "h.{}.self_attention.dense";
  names.up = "h.{}.mlp.dense_h_to_4h";
  names.down = "h.{}.mlp.dense_4h_to_h";
  names.ignored = {"*.rotary_emb.inv_freq", "*.self_attention.maybe_rotary.inv_freq"};
}

void gguf_names(const ModelConfig& config, TensorNames& names) {
  if (config.block != BlockLayout::kParallel) return;
  names.attention_norm = "blk.{}.attn_norm_2";
  names.mlp_norm = "blk.{}.attn_norm";
}

}  // namespace

const Family kFalconFamily = {
    .name = "falcon",
    .hf_types = {"falcon", "RefinedWeb", "RefinedWebModel"},
    .gguf_architectures = {"falcon"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
    .gguf_names = gguf_names,
};

}  // namespace quern
