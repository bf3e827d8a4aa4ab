// Gemma 3, text (arXiv 2503.19786): gemma2 without soft caps, with norms of each query and key head; five layers with a
// window and a short rope base follow each other, the sixth sees everything with a long one.
#include <cmath>

#include "models/families/families.h"
#include "models/families/gemma.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  set_gemma_traits(config, BlockLayout::kSandwich);
  config.attention.qk_norm = QkNorm::kPerHead;
}

// ropes[0] is the global one, ropes[1] the local one of layers with a window.
void set_layer_ropes(ModelConfig& config, const RopeConfig& local) {
  config.ropes.push_back(local);
  for (size_t i = 0; i < config.layer_rope.size(); ++i) config.layer_rope[i] = config.attention.window[i] > 0 ? 1 : 0;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  // The text_config of the multimodal checkpoints says only what differs from these.
  const HfDefaults defaults{.tied = true,
                            .theta = 1e6f,
                            .activation = "gelu_pytorch_tanh",
                            .context = 131072,
                            .vocab = 262208,
                            .heads = 8,
                            .kv_heads = 4,
                            .head_dim = 256};
  const int32_t context = reader.int_or({"max_position_embeddings"}, defaults.context, {1, kPositionsMax});
  read_hf_common(reader, config, defaults);
  config.context_length = context;  // rope scaling is part of it already
  set_traits(config);
  config.norm.weight_offset = 1.0f;
  config.attention.qk_norm_config.weight_offset = 1.0f;
  const float scalar = reader.float_or({"query_pre_attn_scalar"}, 256.0f, 1e-3, 1e9);
  config.attention.scale = 1.0f / std::sqrt(scalar);
  config.attention.softcap = read_hf_softcap(reader, "attn_logit_softcapping", 0.0f);
  config.logits_softcap = read_hf_softcap(reader, "final_logit_softcapping", 0.0f);
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);

  if (reader.bool_or({"use_bidirectional_attention"}, false)) {
    reader.fail({ErrorCode::kUnsupported, "use_bidirectional_attention is not supported"});
  }
  const int32_t window = read_hf_window(reader, 4096);
  const int32_t pattern = reader.int_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6, {1, kLayersMax});
  read_hf_windows(reader, config, window, [pattern](int32_t layer) { return (layer + 1) % pattern != 0; });
  if (reader.has("rope_parameters.full_attention")) {
    config.ropes = {read_hf_rope(reader, config, "rope_parameters.full_attention", defaults)};
    set_layer_ropes(config, read_hf_rope(reader, config, "rope_parameters.sliding_attention", {.theta = 10000.0f}));
    return;
  }
  RopeConfig local;
  local.theta = reader.float_or({"rope_local_base_freq"}, 10000.0f, 1.0 + 1e-6, 1e12);
  local.rotary_dim = config.attention.head_dim;
  set_layer_ropes(config, local);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {.theta = 1e6f});
  set_traits(config);
  config.logits_softcap = reader.float_or({"final_logit_softcapping"}, 0.0f, 0.0, 1e9);
  read_gguf_windows(reader, config, [](int32_t layer) { return layer % 6 < 5; });
  RopeConfig local;
  local.theta = reader.float_or({"rope.freq_base_swa"}, 10000.0f, 1.0 + 1e-6, 1e12);
  local.rotary_dim = config.attention.head_dim;
  set_layer_ropes(config, local);
  // The metadata has no query_pre_attn_scalar. It is head_dim but for the 27B model, where it is hidden / heads.
  if (config.num_layers == 62) {
    config.attention.scale =
        std::sqrt(static_cast<float>(config.attention.num_heads) / static_cast<float>(config.hidden_size));
  }
}

}  // namespace

const Family kGemma3Family = {
    .name = "gemma3_text",
    .hf_types = {"gemma3_text"},
    .hf_wrapper_types = {"gemma3"},
    .gguf_architectures = {"gemma3"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = set_gemma_sandwich_names,
};

}  // namespace quern
