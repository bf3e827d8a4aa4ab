// Writes GGUF v3. Used by the quantiser, by tests and by scripts that make models with random weights.
#pragma once

#include <filesystem>
#include <span>

#include "formats/byte_sink.h"
#include "formats/gguf/gguf_value.h"
#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// Writes to `path` + ".part" and renames, so that a reader never sees half a file. Tensors are written in the given
// order. Data is aligned to `general.alignment`, 32 when absent. Errors: kIo; kInvalidArgument for what a reader would
// refuse: a value that does not match its type number, a name that is too long or occurs twice, more than four
// dimensions, rows that are not whole blocks, a dtype that GGUF does not know.
Status write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata, std::span<const TensorView> tensors);

// The same without the tensors in memory: `bytes` of the views are ignored, and produce(i, sink) is called for each
// tensor in order; it hands the data to `sink` in as many pieces as it likes, together exactly the tensor's bytes.
Status write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata, std::span<const TensorView> tensors,
                  const TensorProducer& produce);

}  // namespace quern
