// Walks the tables of a decoder: which tensors, of which shapes, a configuration asks for.
#pragma once

#include "formats/tensor_file.h"
#include "models/family.h"
#include "models/model.h"
#include "models/model_config.h"
#include "models/tensor_names.h"
#include "models/weights.h"
#include "quern/status.h"

namespace quern {

// `file` must outlive the result. Total: a missing tensor, one of a wrong shape or one left over is kInvalidFile.
Result<DecoderWeights> bind_decoder(const TensorFile& file, const TensorNames& names, const ModelConfig& config,
                                    Device& device, const LoadOptions& options);

}  // namespace quern
