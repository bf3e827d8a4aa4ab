// Granite 3 (IBM): llama with four multipliers.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  kLlamaFamily.read_hf(reader, config);
  config.embedding_scale = reader.float_or({"embedding_multiplier"}, 1.0f, 1e-6, 1e6);
  config.residual_scale = reader.float_or({"residual_multiplier"}, 1.0f, 1e-6, 1e6);
  config.attention.scale = reader.float_or({"attention_multiplier"}, 1.0f, 1e-6, 1e6);
  config.logits_scale = 1.0f / reader.float_or({"logits_scaling"}, 1.0f, 1e-6, 1e6);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  kLlamaFamily.read_gguf(reader, config);
  config.residual_scale = reader.float_or({"residual_scale"}, 1.0f, 1e-6, 1e6);
  config.attention.scale = reader.float_or({"attention.scale"}, config.attention.scale, 1e-6, 1e6);
  config.logits_scale = 1.0f / reader.float_or({"logit_scale"}, 1.0f, 1e-6, 1e6);
}

}  // namespace

const Family kGraniteFamily = {
    .name = "granite",
    .hf_types = {"granite"},
    .gguf_architectures = {"granite"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

}  // namespace quern
