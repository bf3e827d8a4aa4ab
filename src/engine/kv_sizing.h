// How large the KV cache is, from what the user asked for and what the machine has.
#pragma once

#include <cstdint>

#include "models/kv_layout.h"
#include "models/model_config.h"
#include "quern/engine.h"
#include "quern/status.h"
#include "sched/block_groups.h"

namespace quern {

// Rows of logits that a runner has from its start; more come when they are first needed.
inline constexpr int32_t kReservedLogitsRows = 16;

struct KvSize {
  int32_t num_blocks = 0;
  int32_t max_model_len = 0;  // one sequence of this length always fits
};

struct KvNeeds {
  int32_t context_length = 0;   // of the model
  int64_t block_bytes = 0;      // one block: the layers of one group
  int64_t bytes_available = 0;  // memory that may be used without hurting others
  BlockGroups groups;
};

// What a model asks for whose cache is laid out so.
KvNeeds kv_needs(const ModelConfig& config, const KvLayout& layout, int64_t bytes_available);

// kInvalidArgument names the option; kResourceExhausted when max_model_len was asked for and memory does not allow it.
Result<KvSize> size_kv(const EngineOptions& options, const KvNeeds& needs);

// Memory this process may still take: the system's estimate, or less where a control group limits it.
int64_t available_memory_bytes();

}  // namespace quern
