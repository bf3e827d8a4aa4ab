#include "models/decode_cost.h"

#include <set>

#include "base/check.h"

namespace quern {
namespace {

int64_t bytes_of(const Weight& weight) {
  if (weight.device_bytes > 0) return static_cast<int64_t>(weight.device_bytes);
  const auto bytes = dtype_bytes(weight.dtype, static_cast<uint64_t>(weight.planes * weight.rows * weight.cols));
  QUERN_CHECK(bytes.has_value());
  return static_cast<int64_t>(*bytes);
}

}  // namespace

DecodeCost decode_cost(const DecoderWeights& weights, const ModelConfig& config) {
  std::set<const Weight*> looked_up{weights.embed, weights.positions};
  looked_up.erase(weights.output.weight);
  std::set<const Weight*> routed;
  for (const LayerWeights& layer : weights.layers) {
    for (const Linear& part : {layer.moe.gate, layer.moe.up, layer.moe.down}) routed.insert(part.weight);
  }
  DecodeCost cost;
  for (const auto& weight : weights.store.weights) {
    if (looked_up.contains(weight.get())) continue;
    int64_t bytes = bytes_of(*weight);
    int64_t planes = weight->planes;
    if (routed.contains(weight.get())) {
      planes = config.moe.router.top_k;
      bytes = bytes / weight->planes * planes;
    }
    cost.weight_bytes += bytes;
    const int64_t macs = planes * weight->rows * weight->cols;
    cost.macs += macs;
    if (weight.get() == weights.output.weight) cost.logits_macs = macs;
  }
  return cost;
}

}  // namespace quern
