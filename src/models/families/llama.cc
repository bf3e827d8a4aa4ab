// LLaMA 1 to 3 (arXiv 2302.13971) and what is stored in its name: in GGUF, the architecture "llama" also holds Mistral
// and Mixtral, its query and key rows are permuted so that rotary pairs lie side by side, and Llama 3's rope factors
// are a tensor.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  const bool bias = reader.bool_or({"attention_bias"}, false);
  config.attention.qkv_bias = presence(bias);
  config.attention.output_bias = presence(bias);
  config.mlp.bias = presence(reader.bool_or({"mlp_bias"}, false));
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {.style = RopeStyle::kPairs});
  config.attention.rows_in_pairs = true;
  read_gguf_moe(reader, config);
  config.moe.router.normalize = true;
  config.attention.qkv_bias = Presence::kIfPresent;
  config.attention.output_bias = Presence::kIfPresent;
  config.mlp.bias = Presence::kIfPresent;
}

}  // namespace

const Family kLlamaFamily = {
    .name = "llama",
    .hf_types = {"llama"},
    .gguf_architectures = {"llama"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

}  // namespace quern
