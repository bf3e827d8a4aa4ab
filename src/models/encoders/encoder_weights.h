// The tables of tensors of an encoder, on the device.
#pragma once

#include <vector>

#include "formats/tensor_file.h"
#include "models/encoders/encoder_config.h"
#include "models/encoders/encoder_names.h"
#include "models/model.h"
#include "models/weights.h"

namespace quern {

struct EncoderLayerWeights {
  Linear query, key, value, output;  // [hidden, hidden]
  NormWeights attention_norm;        // no weight: the identity (layer 0 of ModernBERT)
  MlpWeights mlp;
  NormWeights mlp_norm;
};

struct EncoderWeights {
  WeightStore store;
  const Weight* embed = nullptr;      // [vocab, hidden]
  const Weight* positions = nullptr;  // [learned_positions, hidden]
  const Weight* types = nullptr;      // [num_types, hidden]
  NormWeights embed_norm, final_norm;
  std::vector<EncoderLayerWeights> layers;
  Linear head_dense;  // [hidden, hidden], may be absent
  NormWeights head_norm;
  Linear head_out;  // [labels, hidden]; absent in embedding models
};

// `file` must outlive the result. Total: a missing tensor, one of a wrong shape or one left over is kInvalidFile. Sets
// head.num_labels and drops parts of the head that the file may leave out.
Result<EncoderWeights> bind_encoder(const TensorFile& file, const EncoderNames& names, EncoderConfig& config,
                                    Device& device, const LoadOptions& options);

}  // namespace quern
