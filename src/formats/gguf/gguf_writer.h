// Writes GGUF v3. Used by the quantiser, by tests and by scripts that make models with random weights.
#pragma once

#include <filesystem>
#include <span>

#include "formats/gguf/gguf_value.h"
#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// Writes to `path` + ".part" and renames, so that a reader never sees half a file. Tensors are written in the given
// order.
Status write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata, std::span<const TensorView> tensors);

}  // namespace quern
