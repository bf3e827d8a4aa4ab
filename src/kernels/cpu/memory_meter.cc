#include "kernels/cpu/memory_meter.h"

#include <algorithm>

#include "base/status.h"
#include "kernels/cpu/kv_storage.h"
#include "kernels/cpu/pack.h"
#include "kernels/host_memory.h"

namespace quern {

Result<std::unique_ptr<Buffer>> MemoryMeter::allocate(int64_t elements) {
  count_.buffer_bytes += elements * static_cast<int64_t>(sizeof(float));
  return allocate_host_buffer(elements);
}

Result<std::unique_ptr<KvStorage>> MemoryMeter::allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) {
  // The real storage: its pages are the system's only once they are touched.
  QUERN_ASSIGN(auto storage, cpu::CpuKvStorage::create(layers, num_blocks));
  count_.kv_bytes += static_cast<int64_t>(storage->block_bytes()) * num_blocks;
  return storage;
}

void MemoryMeter::upload(std::span<const float> host, float* device) {
  std::ranges::copy(host, device);
}

void MemoryMeter::download(const float* /*device*/, std::span<float> host) {
  std::ranges::fill(host, 0.0f);
}

Result<std::unique_ptr<Weight>> MemoryMeter::pack(std::span<const WeightRows> parts, int64_t planes,
                                                  Precision precision) {
  QUERN_ASSIGN(auto weight, CpuWeight::create(parts, planes));
  weight->device_bytes = precision == Precision::kFast ? weight->packed_bytes() : 0;
  count_.packed_bytes += static_cast<int64_t>(weight->device_bytes);
  if (weight->device_bytes == 0) {
    const auto elements = static_cast<uint64_t>(weight->planes) * static_cast<uint64_t>(weight->rows) *
                          static_cast<uint64_t>(weight->cols);
    count_.in_place_bytes += static_cast<int64_t>(dtype_bytes(weight->dtype, elements).value_or(0));
  }
  return weight;
}

void MemoryMeter::route(Mat /*logits*/, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) {
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % static_cast<size_t>(spec.top_k));
  std::ranges::fill(weights, 0.0f);
}

}  // namespace quern
