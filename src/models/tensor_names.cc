#include "models/tensor_names.h"

namespace quern {

TensorNames gguf_tensor_names() {
  TensorNames names;
  names.prefixes = {""};
  names.outputs = {"output"};
  names.embed = "token_embd";
  names.positions = "position_embd";
  names.final_norm = "output_norm";
  names.attention_norm = "blk.{}.attn_norm";
  names.attention_post_norm = "blk.{}.post_attention_norm";
  names.mlp_norm = "blk.{}.ffn_norm";
  names.mlp_post_norm = "blk.{}.post_ffw_norm";
  names.query = "blk.{}.attn_q";
  names.key = "blk.{}.attn_k";
  names.value = "blk.{}.attn_v";
  names.qkv = "blk.{}.attn_qkv";
  names.attention_output = "blk.{}.attn_output";
  names.query_norm = "blk.{}.attn_q_norm";
  names.key_norm = "blk.{}.attn_k_norm";
  names.sinks = "blk.{}.attn_sinks.weight";
  names.query_a = "blk.{}.attn_q_a";
  names.query_a_norm = "blk.{}.attn_q_a_norm";
  names.query_b = "blk.{}.attn_q_b";
  names.kv_a = "blk.{}.attn_kv_a_mqa";
  names.kv_a_norm = "blk.{}.attn_kv_a_norm";
  names.kv_b = "blk.{}.attn_kv_b";
  names.key_b = "blk.{}.attn_k_b";
  names.value_b = "blk.{}.attn_v_b";
  names.gate = "blk.{}.ffn_gate";
  names.up = "blk.{}.ffn_up";
  names.gate_up = "blk.{}.ffn_up";
  names.down = "blk.{}.ffn_down";
  names.router = "blk.{}.ffn_gate_inp";
  names.selection_bias = "blk.{}.exp_probs_b.bias";
  names.expert_gate = "blk.{}.ffn_gate.{}";
  names.expert_up = "blk.{}.ffn_up.{}";
  names.expert_down = "blk.{}.ffn_down.{}";
  names.experts_gate = "blk.{}.ffn_gate_exps";
  names.experts_up = "blk.{}.ffn_up_exps";
  names.experts_down = "blk.{}.ffn_down_exps";
  names.shared_gate = "blk.{}.ffn_gate_shexp";
  names.shared_up = "blk.{}.ffn_up_shexp";
  names.shared_down = "blk.{}.ffn_down_shexp";
  names.shared_router = "blk.{}.ffn_gate_inp_shexp";
  names.rope_freqs = "rope_freqs.weight";
  names.rope_factors_short = "rope_factors_short.weight";
  names.rope_factors_long = "rope_factors_long.weight";
  names.ignored = {"blk.*.attn_rot_embd"};
  return names;
}

std::string tensor_name(std::string_view pattern, int32_t layer, int32_t expert) {
  std::string name;
  int32_t number = layer;
  while (true) {
    const size_t hole = pattern.find("{}");
    name += pattern.substr(0, hole);
    if (hole == std::string_view::npos) return name;
    name += std::to_string(number);
    number = expert;
    pattern.remove_prefix(hole + 2);
  }
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  const std::string_view head = pattern.substr(0, star);
  const std::string_view tail = pattern.substr(star + 1);
  if (!text.starts_with(head)) return false;
  for (size_t skip = head.size(); skip <= text.size(); ++skip) {
    if (matches_pattern(text.substr(skip), tail)) return true;
  }
  return false;
}

}  // namespace quern
