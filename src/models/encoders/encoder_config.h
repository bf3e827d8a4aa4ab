// What an encoder is: one structure for all families (BERT, RoBERTa, DistilBERT, Nomic BERT, ModernBERT), read from
// config.json and the sentence-transformers files beside it, or from GGUF metadata.
//
//   x = norm(word + position + type)
//   post-norm (BERT):        x = norm(x + A(x));  x = norm(x + M(x))
//   pre-norm (ModernBERT):   x += A(norm x);      x += M(norm x);      at the end norm(x)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/loader.h"
#include "models/model_config.h"

namespace quern {

// How the hidden states of a sequence become one vector.
enum class Pooling : uint8_t {
  kMean,         // over all tokens, special ones included
  kMeanSqrtLen,  // their sum divided by the square root of their number
  kMax,          // per element
  kFirst,        // of the first token: "cls"
  kLast,         // of the last token
};

// logits = out(norm(f(dense(pooled)))); the parts a model lacks are left out.
struct EncoderHead {
  Pooling pooling = Pooling::kFirst;
  int32_t num_labels = 0;  // 0: as many as the output matrix has rows
  Presence dense = Presence::kAbsent;
  Presence dense_bias = Presence::kRequired;
  Activation activation = Activation::kTanh;
  bool norm = false;
};

struct EncoderConfig {
  std::string family;
  ModelKind kind = ModelKind::kEncoder;  // kClassifier: `head` gives the output, else pooling and normalize
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;  // divides hidden_size
  int32_t intermediate_size = 0;
  int32_t tokens_max = 0;         // of one input
  int32_t learned_positions = 0;  // rows of the position table; 0: none
  int32_t position_offset = 0;    // the first token's row in it (RoBERTa: padding id + 1)
  int32_t num_types = 0;          // rows of the token type table; 0: none
  float epsilon = 1e-12f;
  bool pre_norm = false;  // then layer 0 has no attention norm: the embedding's norm stands before it
  Presence norm_bias = Presence::kRequired;
  Presence attention_bias = Presence::kRequired;
  Presence mlp_bias = Presence::kRequired;
  QkvLayout qkv = QkvLayout::kSeparate;
  bool gated = false;       // down(f(gate x) * up x), else down(f(up x))
  bool fused_gate = false;  // one matrix: gate rows, then up rows
  Activation activation = Activation::kGelu;
  std::vector<RopeConfig> ropes;
  std::vector<int8_t> layer_rope;  // [layers] index into ropes, -1: none
  std::vector<int32_t> window;     // [layers] |i - j| < window; 0: no limit

  Pooling pooling = Pooling::kMean;
  bool normalize = true;  // L2, after pooling
  EncoderHead head;

  int32_t head_dim() const { return hidden_size / num_heads; }
};

// Whether the source holds an encoder that load_encoder() knows; other sources are decoders or unknown.
bool is_encoder_source(const ModelSource& source);

// Errors: kUnsupported naming what is not supported, kInvalidFile naming the impossible value.
Result<EncoderConfig> read_encoder_config(const ModelSource& source);

// The part of it that ModelConfig can say.
ModelConfig to_model_config(const EncoderConfig& config);

}  // namespace quern
