// How much memory a model will take, without loading it: the model is bound to a device that only counts
// (kernels/cpu/memory_meter.h) and its cache is sized by what sizes the engine's own (kv_sizing.h), so that there is no
// second formula. Reads headers and small tensors only: milliseconds for any size of file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "models/loader.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern {

struct MemoryEstimate {            // bytes
  int64_t weights = 0;             // packed, or read where the file is mapped
  int64_t weights_mapped = 0;      // the latter alone: pages that the system may drop and read again
  int64_t kv_cache = 0;            // once all of it has been written to
  int64_t activations = 0;         // of the largest step
  int64_t overhead = 0;            // the program itself and the vocabulary
  int32_t max_model_len = 0;       // tokens of the longest sequence that the cache holds
  int64_t kv_bytes_per_token = 0;  // 0: no cache
  int64_t total() const { return weights + kv_cache + activations + overhead; }
};

// What a server with these options takes once it is busy, on this machine. `options.model_path` is not looked at.
// Errors: those of loading the model and of its options.
Result<MemoryEstimate> estimate_memory(const ModelSource& source, const EngineOptions& options);
Result<MemoryEstimate> estimate_memory(const std::filesystem::path& path, const EngineOptions& options);

// The same from numbers alone, for a model that is not here.
struct ModelNumbers {
  int64_t weight_bytes = 0;
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t latent_width = 0;  // values per token and layer where attention is latent; 0: keys and values of kv_heads
  int32_t context_length = 0;
  bool has_cache = true;  // encoders have none
};
Result<MemoryEstimate> estimate_memory(const ModelNumbers& numbers, const EngineOptions& options);

// Bytes that no weight, cache or step explains: measured, see docs/catalog.md.
int64_t overhead_bytes(int64_t vocab_size);

// Whether this engine runs models of a family: our name, a model_type of config.json or a GGUF architecture.
bool runs_family(std::string_view family);

}  // namespace quern
