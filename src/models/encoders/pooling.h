// From the hidden states of a sequence to one vector. Sums run in double precision, in order of the tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/encoders/encoder_config.h"

namespace quern {

// states [tokens, width], tokens >= 1.
std::vector<float> pool(std::span<const float> states, int32_t width, Pooling pooling);

// Divides by the L2 norm; a vector of zeros stays as it is.
void normalize_l2(std::span<float> values);

}  // namespace quern
