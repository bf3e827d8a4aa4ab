// Tables of latent attention, from one kv_b projection (Hugging Face) or from its two halves (GGUF).
#pragma once

#include "models/tensor_binder.h"

namespace quern {

Status bind_mla(TensorBinder& binder, const ModelConfig& config, int32_t layer, LayerWeights& out);

}  // namespace quern
