// MiniCPM (arXiv 2404.06395): llama with scaled embeddings, residuals and logits, said by scale_emb, scale_depth and
// dim_model_base.
#include <cmath>

#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.tied = true});
  config.embedding_scale = reader.float_or({"scale_emb"}, 1.0f, 1e-6, 1e6);
  const float depth = reader.float_or({"scale_depth"}, 1.0f, 1e-6, 1e6);
  config.residual_scale = depth / std::sqrt(static_cast<float>(config.num_layers));
  const float base = reader.float_or({"dim_model_base"}, static_cast<float>(config.hidden_size), 1.0, 1e6);
  config.logits_scale = base / static_cast<float>(config.hidden_size);
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  kLlamaFamily.read_gguf(reader, config);
  config.embedding_scale = reader.float_or({"embedding_scale"}, 12.0f, 1e-6, 1e6);
  config.residual_scale =
      reader.float_or({"residual_scale"}, 1.4f / std::sqrt(static_cast<float>(config.num_layers)), 1e-6, 1e6);
  config.logits_scale =
      1.0f / reader.float_or({"logit_scale"}, static_cast<float>(config.hidden_size) / 256.0f, 1e-6, 1e6);
}

}  // namespace

const Family kMinicpmFamily = {
    .name = "minicpm",
    .hf_types = {"minicpm"},
    .gguf_architectures = {"minicpm"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

}  // namespace quern
