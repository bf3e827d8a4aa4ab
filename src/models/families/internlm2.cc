// InternLM2 (arXiv 2403.17297): llama under other names; one fused matrix holds, per key/value head, its query heads,
// its key and its value.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  config.attention.layout = QkvLayout::kFusedPerGroup;
  const bool bias = reader.bool_or({"bias"}, true);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.outputs = {"output"};
  names.embed = "tok_embeddings";
  names.attention_norm = "layers.{}.attention_norm";
  names.mlp_norm = "layers.{}.ffn_norm";
  names.qkv = "layers.{}.attention.wqkv";
  names.attention_output = "layers.{}.attention.wo";
  names.gate = "layers.{}.feed_forward.w1";
  names.up = "layers.{}.feed_forward.w3";
  names.down = "layers.{}.feed_forward.w2";
}

}  // namespace

const Family kInternlm2Family = {
    .name = "internlm2",
    .hf_types = {"internlm2"},
    .gguf_architectures = {"internlm2"},
    .read_hf = read_hf,
    .read_gguf = [](GgufConfigReader& reader, ModelConfig& config) { kLlamaFamily.read_gguf(reader, config); },
    .hf_names = hf_names,
};

}  // namespace quern
