// Command R (Cohere): attention and feed-forward side by side behind one layer norm without bias, rotary pairs. Command
// R7B
// ("cohere2", arXiv 2504.00698): three layers with a window and rotation, the fourth sees everything and is not
// rotated.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  config.block = BlockLayout::kParallelShared;
  config.norm.kind = NormKind::kLayer;
  config.ropes[0].style = RopeStyle::kPairs;
}

void set_head_norms(ModelConfig& config) {
  config.attention.qk_norm = QkNorm::kPerHeadWeights;
  config.attention.qk_norm_config.kind = NormKind::kLayer;
}

void rotate_only_windows(ModelConfig& config) {
  for (size_t i = 0; i < config.layer_rope.size(); ++i) config.layer_rope[i] = config.attention.window[i] > 0 ? 0 : -1;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .theta = 500000.0f, .epsilon = 1e-5f});
  set_traits(config);
  config.logits_scale = reader.float_or({"logit_scale"}, 0.0625f, 1e-6, 1e6);
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
  if (reader.bool_or({"use_qk_norm"}, false)) set_head_norms(config);
}

void read_hf_2(HfConfigReader& reader, ModelConfig& config) {
  read_hf(reader, config);
  const int32_t window = read_hf_window(reader, 4096);
  const int32_t pattern = reader.int_or({"sliding_window_pattern", "_sliding_window_pattern"}, 4, {1, kLayersMax});
  read_hf_windows(reader, config, window, [pattern](int32_t layer) { return (layer + 1) % pattern != 0; });
  rotate_only_windows(config);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config);
  config.logits_scale = reader.float_or({"logit_scale"}, 0.0625f, 1e-6, 1e6);
  if (reader.has_tensor("blk.0.attn_q_norm.weight")) set_head_norms(config);
}

void read_gguf_2(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf(reader, config);
  read_gguf_windows(reader, config, [](int32_t layer) { return (layer + 1) % 4 != 0; });
  rotate_only_windows(config);
}

}  // namespace

const Family kCohereFamily = {
    .name = "cohere",
    .hf_types = {"cohere"},
    .gguf_architectures = {"command-r"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

const Family kCohere2Family = {
    .name = "cohere2",
    .hf_types = {"cohere2"},
    .gguf_architectures = {"cohere2"},
    .read_hf = read_hf_2,
    .read_gguf = read_gguf_2,
};

}  // namespace quern
