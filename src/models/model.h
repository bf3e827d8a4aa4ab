// A loaded model: its tensors on a device and one forward. Two kinds, one interface each: DecoderModel (causal language
// models over a paged KV cache) and EncoderModel (embeddings, classifiers).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "models/kv_layout.h"
#include "models/model_config.h"
#include "quant/scheme.h"
#include "quern/status.h"

namespace quern {

// How a model's weights are put on a device.
struct LoadOptions {
  // NOLINTNEXTLINE(google-explicit-constructor): most callers have nothing else to say.
  LoadOptions(Precision of_products, const QuantScheme& scheme = {}, QuantReport* what_became = nullptr)
      : precision(of_products), quantization(scheme), report(what_became) {}
  Precision precision;
  QuantScheme quantization;
  QuantReport* report;  // filled in while loading; may be null
};

// Tokens of one step, of any mixture of sequences, in rows 0 … T-1. Views: the engine owns what they show.
class Adapter;
struct BatchSequence {
  SequenceSpan span;                                 // its blocks are those of the only group, unless there are
  std::span<const std::span<const int32_t>> tables;  // [groups] block tables, where there is more than one group
  int32_t prompt_tokens =
      0;  // length of the prompt: rope scalings that depend on length (dynamic, longrope) ask for it
  const Adapter* adapter = nullptr;  // LoRA that its rows go through, or none
  float adapter_scale = 1.0f;
};
struct Batch {
  std::span<const int32_t> ids;    // [T]
  std::span<const int32_t> slots;  // [groups, T] where each token's key and value go: block * 16 + offset
  std::span<const BatchSequence> sequences;
  std::span<const int32_t> logits_rows;  // rows of the batch that want logits, ascending
  const KvLayout* layout = nullptr;      // of the storage; null: one group, layer by layer
};

// Called with hidden states of all T rows, for `quern logits --hidden`: name is "embed", "layer.N" or "final".
using HiddenTap = std::function<void(const std::string& name, Mat states)>;

// One token of one sequence, attention over its context aside. 0: not known.
struct DecodeCost {
  int64_t weight_bytes = 0;  // read
  int64_t macs = 0;          // multiply-adds, those of the logits included
  int64_t logits_macs = 0;   // which only rows that want logits cost
};

class DecoderModel {
 public:
  virtual ~DecoderModel() = default;
  virtual const ModelConfig& config() const = 0;
  virtual DecodeCost decode_cost() const { return {}; }
  virtual std::vector<KvLayerSpec> kv_layers(KvDType key, KvDType value) const = 0;

  // Grows scratch for steps of up to this many tokens and logits rows; forward() then allocates nothing.
  virtual Status reserve(int32_t tokens_max, int32_t logits_rows_max) = 0;

  // logits: host memory [logits_rows, vocab_size]. Token ids must be < vocab_size (checked by the engine at the door).
  virtual Status forward(const Batch& batch, KvStorage& kv, std::span<float> logits, const HiddenTap* tap) = 0;
};

struct EncoderInput {
  std::span<const int32_t> ids;       // one sequence, special tokens included
  std::span<const int32_t> type_ids;  // same length, or empty: all zero
};
class EncoderModel {
 public:
  virtual ~EncoderModel() = default;
  virtual const ModelConfig& config() const = 0;
  struct Output {
    std::vector<float> last_hidden_state;  // [n, hidden]
    std::vector<float> embedding;          // [hidden]: pooled and normalised as the folder says; empty for classifiers
    std::vector<float> scores;             // [labels], raw logits; empty unless there is a classification head
  };
  // Runs several sequences at once, each attending to itself only. keep_hidden: fill last_hidden_state. `tap` sees the
  // states of all of them, "embed" (input of layer 0) and "layer.N".
  virtual Result<std::vector<Output>> forward(std::span<const EncoderInput> inputs, bool keep_hidden,
                                              const HiddenTap* tap = nullptr) = 0;
};

}  // namespace quern
