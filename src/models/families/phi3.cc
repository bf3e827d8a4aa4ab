// Phi-3 and Phi-4-mini (arXiv 2404.14219): llama with fused projections and LongRoPE. In GGUF the rope factors are
// tensors and the gate rows lie before the up rows in "ffn_up".
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void set_traits(ModelConfig& config) {
  config.attention.layout = QkvLayout::kFused;
  config.mlp.layout = GateUpLayout::kFused;
}

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.epsilon = 1e-5f});
  set_traits(config);
  const int32_t window = read_hf_window(reader, 0);
  read_hf_windows(reader, config, window, [](int32_t) { return true; });
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits(config);
  read_gguf_windows(reader, config, [](int32_t) { return true; });
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.qkv = "layers.{}.self_attn.qkv_proj";
  names.gate_up = "layers.{}.mlp.gate_up_proj";
}

}  // namespace

const Family kPhi3Family = {
    .name = "phi3",
    .hf_types = {"phi3"},
    .gguf_architectures = {"phi3"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .hf_names = hf_names,
};

}  // namespace quern
