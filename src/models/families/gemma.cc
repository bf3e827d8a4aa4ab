// Gemma (arXiv 2403.08295): llama with 1 + w norms, scaled embeddings and a gelu gate. Released files say "gelu" and
// mean its tanh form.
#include "models/families/gemma.h"

#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true, .activation = "gelu_pytorch_tanh"});
  set_gemma_traits(config, BlockLayout::kPre);
  config.norm.weight_offset = 1.0f;
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_gemma_traits(config, BlockLayout::kPre);
}

}  // namespace

const Family kGemmaFamily = {
    .name = "gemma",
    .hf_types = {"gemma"},
    .gguf_architectures = {"gemma"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

}  // namespace quern
