// OLMo 2 (arXiv 2501.00656): norms behind attention and feed-forward instead of before them; queries and keys are
// normalised whole, all heads together.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  config.block = BlockLayout::kPost;
  config.attention.qk_norm = QkNorm::kWholeRow;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.epsilon = 1e-5f});
  set_traits(config);
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config);
  if (reader.has("attention.sliding_window")) {
    reader.fail({ErrorCode::kUnsupported, "olmo2.attention.sliding_window (OLMo 3) is not supported"});
  }
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.attention_post_norm = "layers.{}.post_attention_layernorm";
  names.mlp_post_norm = "layers.{}.post_feedforward_layernorm";
}

}  // namespace

const Family kOlmo2Family = {
    .name = "olmo2",
    .hf_types = {"olmo2"},
    .gguf_architectures = {"olmo2"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
