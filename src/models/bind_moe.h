// Tables of the feed-forward part: one block, or routed experts.
#pragma once

#include "models/tensor_binder.h"

namespace quern {

struct MlpNames {
  std::string_view gate, up, gate_up, down;
};
Status bind_mlp(TensorBinder& binder, const MlpNames& names, int32_t layer, const MlpConfig& config, int64_t hidden,
                MlpWeights& out);

Status bind_moe(TensorBinder& binder, const ModelConfig& config, int32_t layer, MoeWeights& out);

}  // namespace quern
