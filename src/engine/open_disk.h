// The second tier of an engine's KV cache, from its options.
#pragma once

#include <memory>

#include "engine/runner.h"
#include "kv/disk_tier.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern {

// Null when no path is given. The runner must have its KV storage.
Result<std::unique_ptr<DiskTier>> open_disk(const EngineOptions& options, Runner& runner);

}  // namespace quern
