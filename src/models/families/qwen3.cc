// Qwen 3 (arXiv 2505.09388): qwen2 with norms of each query and key head instead of biases; a variant with experts.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf_attention(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  config.attention.qk_norm = QkNorm::kPerHead;
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_attention(reader, config);
  if (!reader.bool_or({"use_sliding_window"}, false)) return;
  const int32_t window = read_hf_window(reader, 4096);
  const int32_t full_layers = reader.int_or({"max_window_layers"}, 28, {0, kPositionsMax});
  read_hf_windows(reader, config, window, [full_layers](int32_t layer) { return layer >= full_layers; });
}

void read_hf_moe(HfConfigReader& reader, ModelConfig& config) {
  read_hf_attention(reader, config);
  if (reader.bool_or({"use_sliding_window"}, false)) {  // on every layer, unlike qwen3
    config.attention.window.assign(config.attention.window.size(), read_hf_window(reader, 4096));
  }
  MoeConfig& moe = config.moe;
  moe.num_experts = reader.int_or({"num_experts", "num_local_experts"}, 128, {1, kExpertsMax});
  moe.router.top_k = reader.int_or({"num_experts_per_tok"}, 8, {1, kExpertsMax});
  moe.router.normalize = reader.bool_or({"norm_topk_prob"}, false);
  moe.intermediate_size = reader.int_or({"moe_intermediate_size"}, 768, {1, kWidthMax});
  read_hf_sparse_layers(reader, config);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  config.attention.qk_norm = QkNorm::kPerHead;
}

void read_gguf_with_experts(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf(reader, config);
  read_gguf_moe(reader, config);
  config.moe.router.normalize = true;  // the metadata does not say it; every released model does
}

}  // namespace

const Family kQwen3Family = {
    .name = "qwen3",
    .hf_types = {"qwen3"},
    .gguf_architectures = {"qwen3"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

const Family kQwen3MoeFamily = {
    .name = "qwen3_moe",
    .hf_types = {"qwen3_moe"},
    .gguf_architectures = {"qwen3moe"},
    .read_hf = read_hf_moe,
    .read_gguf = read_gguf_with_experts,
};

}  // namespace quern
