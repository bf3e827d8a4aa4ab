// What most architectures' GGUF metadata say alike. Keys: the GGUF specification, "Standardized key-value pairs".
#pragma once

#include <functional>

#include "models/config_reader.h"
#include "models/model_config.h"

namespace quern {

struct GgufDefaults {
  float theta = 10000.0f;
  RopeStyle style = RopeStyle::kHalves;
};

// Sizes, heads, norm epsilon, one rope, end tokens. config.vocab_size must be set (the loader knows it from the
// tensors).
void read_gguf_common(GgufConfigReader& reader, ModelConfig& config, const GgufDefaults& defaults);

// Experts, where expert_count says that there are any: all layers but the leading dense ones.
void read_gguf_moe(GgufConfigReader& reader, ModelConfig& config);

// The window of the layers i where sliding(i), from attention.sliding_window.
void read_gguf_windows(GgufConfigReader& reader, ModelConfig& config,
                       const std::function<bool(int32_t layer)>& sliding);

}  // namespace quern
