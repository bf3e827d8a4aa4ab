// Qwen 1.5 and 2 with experts (arXiv 2407.10671): softmax routing, a shared expert behind a sigmoid gate.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  kQwen2Family.read_hf(reader, config);
  if (reader.bool_or({"use_sliding_window"}, false)) {  // other layers than qwen2's
    const int32_t window = read_hf_window(reader, 4096);
    const int32_t sliding_layers = reader.int_or({"max_window_layers"}, 28, {0, kPositionsMax});
    read_hf_windows(reader, config, window,
                    [sliding_layers](int32_t layer) { return layer % 2 == 0 && layer < sliding_layers; });
  }
  config.attention.qkv_bias = presence(reader.bool_or({"qkv_bias"}, true));
  MoeConfig& moe = config.moe;
  moe.num_experts = reader.int_or({"num_experts"}, 60, {1, kExpertsMax});
  moe.router.top_k = reader.int_or({"num_experts_per_tok"}, 4, {1, kExpertsMax});
  moe.router.normalize = reader.bool_or({"norm_topk_prob"}, false);
  moe.intermediate_size = reader.int_or({"moe_intermediate_size"}, 1408, {1, kWidthMax});
  moe.shared_intermediate_size = reader.int_or({"shared_expert_intermediate_size"}, 5632, {1, kWidthMax});
  moe.shared_gate = true;
  read_hf_sparse_layers(reader, config);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  kQwen2Family.read_gguf(reader, config);
  read_gguf_moe(reader, config);
  config.moe.shared_gate = true;
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.shared_gate = "layers.{}.mlp.shared_expert.gate_proj";
  names.shared_up = "layers.{}.mlp.shared_expert.up_proj";
  names.shared_down = "layers.{}.mlp.shared_expert.down_proj";
}

}  // namespace

const Family kQwen2MoeFamily = {
    .name = "qwen2_moe",
    .hf_types = {"qwen2_moe"},
    .gguf_architectures = {"qwen2moe"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
