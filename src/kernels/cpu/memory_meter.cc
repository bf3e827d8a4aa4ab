#include "kernels/cpu/memory_meter.h"

#include <algorithm>

#include "base/status.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/kv_storage.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/packed_size.h"
#include "kernels/host_memory.h"

namespace quern {

namespace {

// What allocate_bytes() really took for so many bytes: large arrays are whole huge pages.
int64_t taken(const AlignedArray<std::byte>& array, size_t bytes) {
  return static_cast<int64_t>(std::max(array.get_deleter().mapped_bytes, bytes));
}

}  // namespace

Result<std::unique_ptr<Buffer>> MemoryMeter::allocate(int64_t elements) {
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  QUERN_ASSIGN(AlignedArray<std::byte> array, allocate_bytes(bytes));
  count_.buffer_bytes += taken(array, bytes);
  return make_host_buffer(std::move(array), elements);
}

Result<std::unique_ptr<KvStorage>> MemoryMeter::allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) {
  // The real storage: its pages are the system's only once they are touched.
  QUERN_ASSIGN(auto storage, cpu::CpuKvStorage::create(layers, num_blocks));
  count_.kv_bytes += taken(storage->memory, static_cast<size_t>(num_blocks) * storage->block_bytes());
  return storage;
}

KvDType MemoryMeter::fast_kv_dtype() const {
  return CpuDevice::fastest_kv_dtype();
}

void MemoryMeter::upload(std::span<const float> host, float* device) {
  std::ranges::copy(host, device);
}

void MemoryMeter::download(const float* /*device*/, std::span<float> host) {
  std::ranges::fill(host, 0.0f);
}

Result<std::unique_ptr<Weight>> MemoryMeter::pack(std::span<const WeightRows> parts, int64_t planes,
                                                  const WeightForm& form) {
  QUERN_ASSIGN(auto weight, CpuWeight::create(parts, planes, form.dtype));
  weight->device_bytes = form.precision == Precision::kFast ? packed_bytes(*weight) : 0;
  if (weight->device_bytes == 0 && weight->is_rounded()) weight->device_bytes = rounded_bytes(*weight);
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
