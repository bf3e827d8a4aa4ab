// From a path to a model on a device: opens the container, reads its configuration, finds the family, binds every
// tensor.
#pragma once

#include <filesystem>
#include <memory>
#include <variant>

#include "base/json.h"
#include "formats/gguf/gguf_file.h"
#include "formats/hf_folder.h"
#include "formats/safetensors/safetensors_file.h"
#include "models/model.h"

namespace quern {

// An opened model file or folder. Owns the mappings that weights may read in place: keep it as long as the model.
struct ModelSource {
  std::filesystem::path path;
  std::unique_ptr<GgufFile> gguf;  // one of gguf / (folder and safetensors)
  std::unique_ptr<HfFolder> folder;
  std::unique_ptr<SafetensorsFile> safetensors;  // may be null for a folder without weights (tokenizer only)
  const TensorFile* tensors() const;             // null when there are none
};
Result<std::unique_ptr<ModelSource>> open_model_source(const std::filesystem::path& path);

// Configuration alone: cheap, touches no weights. Errors: kUnsupported for an unknown family (named), kInvalidFile for
// an impossible value (named, with the number).
Result<ModelConfig> read_model_config(const ModelSource& source);

// load_encoder also takes a causal language model: its final states are pooled (last token unless the files say else).
// Binds and packs all tensors. Loading is total: a missing tensor, one of a wrong shape or one that nothing uses is
// kInvalidFile with its name. With a quantization, floating matrices are rounded while they are packed: a weight that
// is not finite or over the range of the type is kInvalidFile with the tensor's name. `source` must outlive the model.
Result<std::unique_ptr<DecoderModel>> load_decoder(const ModelSource& source, Device& device,
                                                   const LoadOptions& options);
Result<std::unique_ptr<EncoderModel>> load_encoder(const ModelSource& source, Device& device,
                                                   const LoadOptions& options);

}  // namespace quern
