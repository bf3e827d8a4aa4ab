// Experts whose file layout is not rows of a matrix: gate and up columns alternate, or MXFP4 blocks and scales lie
// apart. Both become host copies in the layout that the device packs.
#pragma once

#include "models/tensor_binder.h"

namespace quern {

Status bind_interleaved_experts(TensorBinder& binder, const ModelConfig& config, int32_t layer, MoeWeights& out);

// One MXFP4 block of 32 elements as checkpoints store it (16 bytes, elements 2i and 2i + 1 in byte i, and a scale) into
// ours (the scale, then 16 bytes, elements i and i + 16 in byte i). target: 17 bytes.
void repack_mxfp4_block(const std::byte* nibbles, std::byte scale, std::byte* target);

}  // namespace quern
