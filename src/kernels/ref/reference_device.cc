#include "kernels/ref/reference_device.h"

#include <algorithm>

#include "kernels/host_memory.h"

namespace quern {

std::unique_ptr<Device> make_reference_device() {
  return std::make_unique<ReferenceDevice>();
}

Result<std::unique_ptr<Buffer>> ReferenceDevice::allocate(int64_t elements) {
  return allocate_host_buffer(elements);
}

void ReferenceDevice::upload(std::span<const float> host, float* device) {
  std::ranges::copy(host, device);
}

void ReferenceDevice::download(const float* device, std::span<float> host) {
  std::copy_n(device, host.size(), host.begin());
}

}  // namespace quern
