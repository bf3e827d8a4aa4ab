// The feed-forward block: down(f(gate x) * up x), or down(f(up x)) without a gate.
#pragma once

#include "models/adapters/adapter.h"
#include "models/model_config.h"
#include "models/weights.h"

namespace quern {

struct MlpScratch {
  std::unique_ptr<Buffer> gate, up;  // [T, intermediate]
};

// The largest block this scratch serves.
Status reserve_mlp(Device& device, int64_t tokens_max, int64_t intermediate_size, MlpScratch& scratch);

// out [T, hidden] = block(x [T, hidden]); intermediate_size of the weights at hand.
void run_mlp(Device& device, const MlpConfig& config, int64_t intermediate_size, const MlpWeights& weights,
             MlpScratch& scratch, Mat x, Mat out, const AdapterStep& adapters = {});

}  // namespace quern
