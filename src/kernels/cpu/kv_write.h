// One vector of one head into a block.
#pragma once

#include "kernels/cpu/kv_storage.h"

namespace quern::cpu {

inline constexpr int64_t kKvScaleGroup = 32;        // elements that share a scale of Q8_0 or Q4_0
inline constexpr int64_t kKvGroupNibbleBytes = 16;  // of such a group in Q4_0

// source [section.dim]; head: start of the head's part of the block.
void write_kv_vector(const float* source, const KvSection& section, int64_t position, std::byte* head);

}  // namespace quern::cpu
