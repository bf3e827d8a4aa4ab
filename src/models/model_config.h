// What a model is, once config.json or GGUF metadata has been read and checked: one structure for all families.
// Families differ by these values; only what cannot be said here is a file of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace quern {

enum class ModelKind : uint8_t { kDecoder, kEncoder, kClassifier };

struct ModelConfig {
  std::string family;  // "llama", "qwen3_moe", "deepseek_v3": Hugging Face's model_type
  ModelKind kind = ModelKind::kDecoder;
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t context_length = 0;    // positions the model was made for, rope scaling counted in
  std::vector<int32_t> eos_ids;  // from generation_config, config or GGUF (eos, eot)
  int32_t bos_id = -1;
  // The rest (heads, norms, rope, experts, windows, multipliers …) follows as the decoder needs it.
};

}  // namespace quern
