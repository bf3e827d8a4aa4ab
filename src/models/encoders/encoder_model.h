// The forward of all encoders: embeddings, layers, then pooling or the classification head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/encoders/encoder_config.h"
#include "models/encoders/encoder_weights.h"
#include "models/model.h"
#include "models/rope.h"

namespace quern {

class EncoderForward final : public EncoderModel {
 public:
  // `device` must outlive the model.
  EncoderForward(EncoderConfig config, EncoderWeights weights, Device& device);

  const ModelConfig& config() const override { return model_config_; }
  // Errors: kInvalidArgument naming the input and the limit: an empty input, one longer than the positions, an id or a
  // type outside its table, lengths that differ.
  Result<std::vector<Output>> forward(std::span<const EncoderInput> inputs, bool keep_hidden,
                                      const HiddenTap* tap) override;

 private:
  Status check(std::span<const EncoderInput> inputs) const;
  Status reserve(int64_t tokens);
  Status run_chunk(std::span<const EncoderInput> inputs, bool keep_hidden, const HiddenTap* tap,
                   std::span<Output> outputs);
  void embed(std::span<const EncoderInput> inputs, int64_t tokens);
  Status fill_rotations(std::span<const EncoderInput> inputs, int64_t tokens);
  void run_layer(size_t layer, int64_t tokens, std::span<const SequenceSpan> sequences);
  void attend(size_t layer, Mat x, std::span<const SequenceSpan> sequences, Mat out);
  void feed_forward(const EncoderLayerWeights& weights, Mat x, Mat out);
  void layer_norm(Mat x, const NormWeights& weights, Mat out);
  Result<std::vector<float>> classify(std::span<const float> pooled, int64_t count);
  Mat rows(const std::unique_ptr<Buffer>& buffer, int64_t tokens, int64_t cols) const;

  EncoderConfig config_;
  ModelConfig model_config_;
  EncoderWeights weights_;
  Device& device_;
  std::vector<RopeTable> ropes_;

  int64_t tokens_reserved_ = 0;
  std::unique_ptr<Buffer> x_, normed_, query_, key_, value_, attended_;  // [T, hidden]
  std::unique_ptr<Buffer> up_, gate_;                                    // [T, intermediate]
  std::vector<std::unique_ptr<Buffer>> cosine_, sine_;                   // per rope [T, rotary / 2]
};

}  // namespace quern
