// A causal language model as an embedding model (Qwen3-Embedding and its like): the final hidden states, pooled as the
// files say, by the last token where they say nothing.
#pragma once

#include <memory>
#include <vector>

#include "models/encoders/encoder_config.h"
#include "models/model.h"

namespace quern {

class DecoderEmbedder final : public EncoderModel {
 public:
  struct Options {
    Pooling pooling = Pooling::kLast;
    bool normalize = true;
    KvDType kv_dtype = KvDType::kF32;
  };
  // `device` must outlive the model.
  DecoderEmbedder(std::unique_ptr<DecoderModel> decoder, Device& device, const Options& options);

  const ModelConfig& config() const override { return config_; }
  // As EncoderForward: kInvalidArgument naming the input. type_ids have no meaning here and must be zero.
  Result<std::vector<Output>> forward(std::span<const EncoderInput> inputs, bool keep_hidden,
                                      const HiddenTap* tap) override;

 private:
  Status check(std::span<const EncoderInput> inputs) const;
  Status ensure_kv(int32_t tokens);
  // Final states of one sequence, [tokens, hidden].
  Result<std::vector<float>> run(std::span<const int32_t> ids, const HiddenTap* shown);

  std::unique_ptr<DecoderModel> decoder_;
  Device& device_;
  Options options_;
  ModelConfig config_;
  std::unique_ptr<KvStorage> kv_;
  std::vector<int32_t> blocks_, slots_;
};

}  // namespace quern
