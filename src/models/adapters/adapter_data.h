// A LoRA adapter as it is read from its file and checked against the model it is for. No device yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "quern/status.h"

namespace quern {

enum class AdapterSite : uint8_t { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };
inline constexpr size_t kAdapterSites = 7;

struct AdapterData {
  struct Pair {
    int32_t layer = 0;
    AdapterSite site = AdapterSite::kQuery;
    int32_t rank = 0;
    int64_t rows = 0, cols = 0;  // of the projection
    std::vector<float> down;     // A [rank, cols]
    std::vector<float> up;       // B [rows, rank], times alpha / rank
  };
  std::vector<Pair> pairs;
  uint64_t digest = 0;  // of all that changes results
};

// A PEFT folder (adapter_config.json and adapter_model.safetensors) or a GGUF file of general.type "adapter". Total:
// each tensor must belong to a projection that this model has, in its shape. Errors: kNotFound, kInvalidFile and
// kUnsupported, one line that names the file and the tensor or key.
Result<AdapterData> read_adapter(const std::filesystem::path& path, const ModelConfig& config);

}  // namespace quern
