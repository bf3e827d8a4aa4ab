// What most families' config.json say alike. A family's reader calls these with its own defaults (those of its
// configuration class in transformers) and then says what is different.
#pragma once

#include <functional>
#include <string_view>

#include "models/config_reader.h"
#include "models/model_config.h"

namespace quern {

struct HfDefaults {
  bool tied = false;
  float theta = 10000.0f;
  float epsilon = 1e-6f;
  float partial_rotary = 1.0f;
  std::string_view activation = "silu";
  // Sizes where the file does not say; 0: it must (heads, vocab, context) or they follow from the others.
  int32_t context = 0;
  int32_t vocab = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
};

// Sizes, heads, norm epsilon, activation, one rope, tied embeddings, end tokens. Reads older and newer keys alike
// (rope_theta + rope_scaling, rope_parameters).
void read_hf_common(HfConfigReader& reader, ModelConfig& config, const HfDefaults& defaults);

// One rope from the object `scope` ("rope_parameters", "rope_parameters.full_attention", "rope_scaling"); keys that
// older files keep at the top level are found there.
RopeConfig read_hf_rope(HfConfigReader& reader, const ModelConfig& config, std::string_view scope,
                        const HfDefaults& defaults);

// `sliding_window`; 0 when the file says null.
int32_t read_hf_window(HfConfigReader& reader, int32_t fallback);

// A soft cap; 0 when the file says null.
float read_hf_softcap(HfConfigReader& reader, std::string_view key, float fallback);

// Windows by layer: `layer_types` when the file has it, else sliding(layer).
void read_hf_windows(HfConfigReader& reader, ModelConfig& config, int32_t window,
                     const std::function<bool(int32_t layer)>& sliding);
// The same question answered per layer: true where the layer has a sliding window.
std::vector<uint8_t> read_hf_sliding_layers(HfConfigReader& reader, int32_t num_layers,
                                            const std::function<bool(int32_t layer)>& sliding);

// Which layers have experts: mlp_only_layers and decoder_sparse_step (qwen's MoE models).
void read_hf_sparse_layers(HfConfigReader& reader, ModelConfig& config);

Activation read_hf_activation(HfConfigReader& reader, std::string_view fallback);
Activation read_hf_activation(HfConfigReader& reader, std::string_view key, std::string_view fallback);

inline Presence presence(bool present) {
  return present ? Presence::kRequired : Presence::kAbsent;
}

}  // namespace quern
