// What the generations of Gemma share.
#pragma once

#include "models/family.h"

namespace quern {

// Embeddings times sqrt(hidden), gelu (tanh form), norms placed as `block` says.
void set_gemma_traits(ModelConfig& config, BlockLayout block);
// Hugging Face's names of the four norms of a layer.
void set_gemma_sandwich_names(const ModelConfig&, TensorNames& names);

}  // namespace quern
