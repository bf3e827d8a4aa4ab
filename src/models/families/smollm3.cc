// SmolLM3 (Hugging Face): llama where every fourth layer is not rotated.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .theta = 2e6f});
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
  config.mlp.bias = presence(reader.bool_or({"mlp_bias"}, false));
  const int32_t interval = reader.int_or({"no_rope_layer_interval"}, 4, {1, kLayersMax});
  const std::vector<int64_t> rotated = reader.ints({"no_rope_layers"}, kLayersMax);  // 1: the layer is rotated
  if (!rotated.empty() && std::ssize(rotated) != config.num_layers) {
    reader.fail("no_rope_layers must have one entry per layer");
    return;
  }
  for (int32_t i = 0; i < config.num_layers; ++i) {
    const auto layer = static_cast<size_t>(i);
    const bool is_rotated = rotated.empty() ? (i + 1) % interval != 0 : rotated[layer] != 0;
    config.layer_rope[layer] = is_rotated ? 0 : -1;
  }
  if (!reader.bool_or({"use_sliding_window"}, false)) return;
  const int32_t window = read_hf_window(reader, 0);
  read_hf_windows(reader, config, window,
                  [&](int32_t layer) { return config.layer_rope[static_cast<size_t>(layer)] < 0; });
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  kLlamaFamily.read_gguf(reader, config);
  for (size_t i = 0; i < config.layer_rope.size(); ++i) config.layer_rope[i] = (i + 1) % 4 != 0 ? 0 : -1;
}

}  // namespace

const Family kSmollm3Family = {
    .name = "smollm3",
    .hf_types = {"smollm3"},
    .gguf_architectures = {"smollm3"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

}  // namespace quern
