// What one more token costs: the two numbers that bound its speed.
#pragma once

#include "models/model.h"
#include "models/weights.h"

namespace quern {

// Of the matrices that a token passes: an embedding table counts when it is also the output projection, experts by the
// share of them that a token is routed to. Vectors (norms, biases) are not counted.
DecodeCost decode_cost(const DecoderWeights& weights, const ModelConfig& config);

}  // namespace quern
