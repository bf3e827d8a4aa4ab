// How a file names a model's tensors. One structure, two defaults (Hugging Face's llama, GGUF); a family changes what
// it spells differently. "{}" stands for the layer, a second one for the expert. Matrices and norms have ".weight" and
// ".bias" appended; the names marked "whole" are used as they stand. An empty name: the family has no such tensor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct TensorNames {
  // Put before every name but those of `outputs`; the first under which the embedding table exists is taken.
  std::vector<std::string_view> prefixes = {"model."};
  std::vector<std::string_view> outputs = {"lm_head"};  // output projection, the first that exists
  bool transposed = false;                              // matrices are [in, out] (gpt2's Conv1D)

  std::string_view embed = "embed_tokens";
  std::string_view positions;  // learned positions
  std::string_view final_norm = "norm";

  std::string_view attention_norm = "layers.{}.input_layernorm";
  std::string_view attention_post_norm;
  std::string_view mlp_norm = "layers.{}.post_attention_layernorm";
  std::string_view mlp_post_norm;

  std::string_view query = "layers.{}.self_attn.q_proj";
  std::string_view key = "layers.{}.self_attn.k_proj";
  std::string_view value = "layers.{}.self_attn.v_proj";
  std::string_view qkv;  // fused
  std::string_view attention_output = "layers.{}.self_attn.o_proj";
  std::string_view query_norm = "layers.{}.self_attn.q_norm";  // with a second "{}": one tensor per head
  std::string_view key_norm = "layers.{}.self_attn.k_norm";
  std::string_view sinks = "layers.{}.self_attn.sinks";  // whole

  // Latent attention
  std::string_view query_a = "layers.{}.self_attn.q_a_proj";
  std::string_view query_a_norm = "layers.{}.self_attn.q_a_layernorm";
  std::string_view query_b = "layers.{}.self_attn.q_b_proj";
  std::string_view kv_a = "layers.{}.self_attn.kv_a_proj_with_mqa";
  std::string_view kv_a_norm = "layers.{}.self_attn.kv_a_layernorm";
  std::string_view kv_b = "layers.{}.self_attn.kv_b_proj";
  std::string_view key_b;
  std::string_view value_b;

  std::string_view gate = "layers.{}.mlp.gate_proj";
  std::string_view up = "layers.{}.mlp.up_proj";
  std::string_view gate_up;  // fused
  std::string_view down = "layers.{}.mlp.down_proj";

  std::string_view router = "layers.{}.mlp.gate";
  std::string_view selection_bias = "layers.{}.mlp.gate.e_score_correction_bias";  // whole
  // One tensor per expert …
  std::string_view expert_gate = "layers.{}.mlp.experts.{}.gate_proj";
  std::string_view expert_up = "layers.{}.mlp.experts.{}.up_proj";
  std::string_view expert_down = "layers.{}.mlp.experts.{}.down_proj";
  // … or all of them in one, [experts, out, in], which is preferred where the file has it.
  std::string_view experts_gate;
  std::string_view experts_up;
  std::string_view experts_down;
  // … or [experts, in, 2 * out] with gate and up columns alternating and [experts, in, out], each either plain ("name",
  // whole) or MXFP4 ("name_blocks", "name_scales"); biases "name_bias".
  std::string_view interleaved_gate_up;
  std::string_view interleaved_down;
  std::string_view shared_gate = "layers.{}.mlp.shared_experts.gate_proj";
  std::string_view shared_up = "layers.{}.mlp.shared_experts.up_proj";
  std::string_view shared_down = "layers.{}.mlp.shared_experts.down_proj";
  std::string_view shared_router = "layers.{}.mlp.shared_expert_gate";

  std::string_view rope_freqs;          // whole: divisors of the frequencies
  std::string_view rope_factors_short;  // whole
  std::string_view rope_factors_long;   // whole

  // Tensors that a file may have and nothing reads (caches of computed tables, duplicates of tied tensors). A "*"
  // stands for any characters.
  std::vector<std::string> ignored = {"*.rotary_emb.inv_freq"};
};

TensorNames gguf_tensor_names();

// Fills "{}" with the numbers, in order.
std::string tensor_name(std::string_view pattern, int32_t layer, int32_t expert = 0);

bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace quern
