// The one forward of all causal language models: embed, layers, final norm, logits of the wanted rows. What differs
// between families is in ModelConfig.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/adapters/adapter.h"
#include "models/decode_cost.h"
#include "models/mla.h"
#include "models/model.h"
#include "models/moe.h"
#include "models/rope.h"
#include "models/weights.h"

namespace quern {

class Decoder final : public DecoderModel {
 public:
  // `device` must outlive the model, and so must the file that weights may read in place.
  Decoder(ModelConfig config, DecoderWeights weights, Device& device);

  const ModelConfig& config() const override { return config_; }
  DecodeCost decode_cost() const override { return quern::decode_cost(weights_, config_); }
  std::vector<KvLayerSpec> kv_layers(KvDType key, KvDType value) const override;
  Status reserve(int32_t tokens_max, int32_t logits_rows_max) override;
  Status forward(const Batch& batch, KvStorage& kv, std::span<float> logits, const HiddenTap* tap) override;

 private:
  // What the layers of one step share.
  struct Step {
    const Batch& batch;
    KvStorage& kv;
    const HiddenTap* tap;
    int64_t tokens = 0;

    int32_t num_groups() const { return batch.layout == nullptr ? 1 : batch.layout->num_groups(); }
    KvPlace place(int32_t layer) const {
      return batch.layout == nullptr ? KvPlace{.group = 0, .index = layer}
                                     : batch.layout->places[static_cast<size_t>(layer)];
    }
  };
  struct RopeBuffers {
    std::unique_ptr<Buffer> cosine, sine;  // [tokens_max, half]
    std::vector<float> host_cosine, host_sine;
  };

  Mat rows(const std::unique_ptr<Buffer>& buffer, int64_t rows, int64_t cols) const { return buffer->mat(rows, cols); }
  void norm(Mat x, const NormConfig& config, const NormWeights& weights, Mat out, int64_t width = 0,
            bool weight_per_slice = false);
  void fill_positions(const Step& step);
  Status collect_adapters(const Step& step);
  AdapterStep adapters_at(const Step& step, int32_t layer) const;
  void embed(const Step& step);
  void run_layer(const Step& step, int32_t layer);
  Mat attention(const Step& step, int32_t layer, Mat x);
  void collect_spans(const Step& step);
  void write_and_attend(const Step& step, int32_t layer, Mat query, Mat key, Mat value, Mat out);
  void normalize_queries_and_keys(const LayerWeights& weights, Mat query, Mat key);
  void rotate(const Step& step, int32_t layer, Mat x, int32_t head_dim, int32_t offset);
  Mat feed_forward(const Step& step, int32_t layer, Mat x);
  void compute_logits(const Step& step, std::span<float> logits);
  Status grow(std::unique_ptr<Buffer>& buffer, int64_t elements);

  ModelConfig config_;
  DecoderWeights weights_;
  Device& device_;
  std::vector<RopeTable> ropes_;
  std::vector<AttentionSpec> attention_specs_;  // [layers]

  int32_t tokens_max_ = 0;
  int32_t logits_rows_max_ = 0;
  std::unique_ptr<Buffer> residual_;  // [T, hidden] the stream
  std::unique_ptr<Buffer> normed_;    // [T, hidden]
  std::unique_ptr<Buffer> attended_;  // [T, hidden] what attention adds
  std::unique_ptr<Buffer> fed_;       // [T, hidden] what the feed-forward part adds
  std::unique_ptr<Buffer> query_, key_, value_, heads_out_;
  std::unique_ptr<Buffer> logits_in_;  // [R, hidden]
  std::unique_ptr<Buffer> logits_;     // [R, vocab]
  std::vector<RopeBuffers> rope_buffers_;
  std::vector<int32_t> positions_;         // [T]
  std::vector<SequenceSpan> spans_;        // [groups, sequences]
  std::vector<AdapterRows> adapter_rows_;  // of the step; neighbours with one adapter are one entry
  std::unique_ptr<Buffer> adapter_low_, adapter_delta_;
  MlpScratch mlp_scratch_;
  MoeScratch moe_scratch_;
  MlaScratch mla_scratch_;
};

}  // namespace quern
