// What, besides the tokens, decides the keys and values of a prompt.
#pragma once

#include <cstdint>

#include "models/model_config.h"

namespace quern {

// Salt of a sequence's prefix keys. Rope scalings that look at the prompt's length give other keys for the same tokens:
// longrope past its original context, dynamic for each length past it.
inline uint64_t prefix_salt(const ModelConfig& config, int32_t prompt_tokens) {
  uint64_t salt = 0;
  for (const RopeConfig& rope : config.ropes) {
    if (prompt_tokens <= rope.original_context) continue;
    if (rope.scaling == RopeScaling::kLongRope) salt |= 1;
    if (rope.scaling == RopeScaling::kDynamic) salt |= static_cast<uint64_t>(prompt_tokens) << 1;
  }
  return salt;
}

}  // namespace quern
