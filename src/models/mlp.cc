#include "models/mlp.h"

#include "base/status.h"

namespace quern {

Status reserve_mlp(Device& device, int64_t tokens_max, int64_t intermediate_size, MlpScratch& scratch) {
  QUERN_ASSIGN(scratch.gate, device.allocate(tokens_max * intermediate_size));
  QUERN_ASSIGN(scratch.up, device.allocate(tokens_max * intermediate_size));
  return {};
}

void run_mlp(Device& device, const MlpConfig& config, int64_t intermediate_size, const MlpWeights& weights,
             MlpScratch& scratch, Mat x, Mat out, const AdapterStep& adapters) {
  const Mat up = scratch.up->mat(x.rows, intermediate_size);
  if (config.gated) {
    const Mat gate = scratch.gate->mat(x.rows, intermediate_size);
    const Device::MatmulTarget targets[] = {{weights.gate.weight, weights.gate.bias, gate},
                                            {weights.up.weight, weights.up.bias, up}};
    device.matmul(x, targets);
    adapters.add(device, AdapterSite::kGate, x, gate);
    adapters.add(device, AdapterSite::kUp, x, up);
    device.activate_multiply(gate, up, config.activation, up);
  } else {
    const Device::MatmulTarget target{weights.up.weight, weights.up.bias, up};
    device.matmul(x, {&target, 1});
    adapters.add(device, AdapterSite::kUp, x, up);
    device.activate(up, config.activation, up);
  }
  const Device::MatmulTarget down{weights.down.weight, weights.down.bias, out};
  device.matmul(up, {&down, 1});
  adapters.add(device, AdapterSite::kDown, up, out);
}

}  // namespace quern
