#include "models/model_config.h"

namespace quern {

std::vector<KvLayerSpec> kv_layer_specs(const ModelConfig& config, KvDType key, KvDType value) {
  const AttentionConfig& attention = config.attention;
  KvLayerSpec spec{.num_kv_heads = attention.num_kv_heads,
                   .key_dim = attention.head_dim,
                   .value_dim = attention.value_dim,
                   .key_dtype = key,
                   .value_dtype = value};
  if (attention.mla.kv_lora_rank > 0) {
    spec.num_kv_heads = 1;
    spec.key_dim = attention.mla.kv_lora_rank + attention.mla.rope_dim;
    spec.value_dim = attention.mla.kv_lora_rank;
    spec.value_in_key = true;
  }
  return std::vector<KvLayerSpec>(static_cast<size_t>(config.num_layers), spec);
}

size_t kv_bytes_per_token(const ModelConfig& config, KvDType key, KvDType value) {
  size_t bytes = 0;
  for (const KvLayerSpec& spec : kv_layer_specs(config, key, value)) bytes += kv_bytes_per_token(spec);
  return bytes;
}

}  // namespace quern
