// StarCoder2 (arXiv 2402.19173): layer norms, biases, a plain gelu block, a window on every layer.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config, Presence bias) {
  config.norm.kind = NormKind::kLayer;
  config.norm.bias = Presence::kRequired;
  config.attention.qkv_bias = bias;
  config.attention.output_bias = bias;
  config.mlp.gated = false;
  config.mlp.bias = bias;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .epsilon = 1e-5f, .activation = "gelu_pytorch_tanh"});
  set_traits(config, presence(reader.bool_or({"use_bias"}, true)));
  const int32_t window = read_hf_window(reader, 0);
  read_hf_windows(reader, config, window, [](int32_t) { return true; });
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config, Presence::kIfPresent);
  config.mlp.activation = Activation::kGeluTanh;
  read_gguf_windows(reader, config, [](int32_t) { return true; });
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.up = "layers.{}.mlp.c_fc";
  names.down = "layers.{}.mlp.c_proj";
}

}  // namespace

const Family kStarcoder2Family = {
    .name = "starcoder2",
    .hf_types = {"starcoder2"},
    .gguf_architectures = {"starcoder2"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
