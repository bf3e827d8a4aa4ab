#include "kernels/device.h"

namespace quern {
namespace {

size_t kv_bytes_per_vector(KvDType dtype, int32_t dim) {
  const size_t n = static_cast<size_t>(dim);
  switch (dtype) {
    case KvDType::kF32: return n * 4;
    case KvDType::kF16:
    case KvDType::kBF16: return n * 2;
    case KvDType::kQ8_0: return (n + 31) / 32 * 34;
    case KvDType::kQ4_0: return (n + 31) / 32 * 18;
    case KvDType::kI16: return n * 2 + sizeof(float);
  }
  return 0;
}

}  // namespace

void keep_latent_in_floats(std::span<KvLayerSpec> layers) {
  for (KvLayerSpec& layer : layers) {
    if (!layer.value_in_key) continue;
    if (layer.key_dtype == KvDType::kI16) layer.key_dtype = KvDType::kF16;
    if (layer.value_dtype == KvDType::kI16) layer.value_dtype = KvDType::kF16;
  }
}

size_t kv_bytes_per_token(const KvLayerSpec& layer) {
  size_t bytes = kv_bytes_per_vector(layer.key_dtype, layer.key_dim);
  if (!layer.value_in_key) bytes += kv_bytes_per_vector(layer.value_dtype, layer.value_dim);
  return bytes * static_cast<size_t>(layer.num_kv_heads);
}

}  // namespace quern
