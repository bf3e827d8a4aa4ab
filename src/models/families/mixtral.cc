// Mixtral 8x7B (arXiv 2401.04088): mistral with routed experts. In GGUF it is called llama.
#include "models/families/families.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.theta = 1e6f, .epsilon = 1e-5f});
  const int32_t window = read_hf_window(reader, 0);
  read_hf_windows(reader, config, window, [](int32_t) { return true; });
  MoeConfig& moe = config.moe;
  moe.num_experts = reader.int_or({"num_local_experts", "num_experts"}, 8, {1, kExpertsMax});
  moe.router.top_k = reader.int_or({"num_experts_per_tok"}, 2, {1, kExpertsMax});
  moe.router.normalize = true;
  moe.intermediate_size = config.mlp.intermediate_size;
  moe.is_moe.assign(moe.is_moe.size(), 1);
}

void hf_names(const ModelConfig&, TensorNames& names) {
  names.router = "layers.{}.block_sparse_moe.gate";
  names.expert_gate = "layers.{}.block_sparse_moe.experts.{}.w1";
  names.expert_up = "layers.{}.block_sparse_moe.experts.{}.w3";
  names.expert_down = "layers.{}.block_sparse_moe.experts.{}.w2";
}

}  // namespace

const Family kMixtralFamily = {
    .name = "mixtral",
    .hf_types = {"mixtral"},
    .read_hf = read_hf,
    .hf_names = hf_names,
};

}  // namespace quern
