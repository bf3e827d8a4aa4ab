// GGUF metadata of encoders: architectures "bert" (which also holds RoBERTa and DistilBERT; RoBERTa's position table
// comes without its unused first rows), "nomic-bert", "modern-bert".
#include "base/status.h"
#include "models/encoders/encoder_readers.h"

namespace quern {
namespace {

// Values of pooling_type: the GGUF specification's enum, 4 marks a classifier.
constexpr int32_t kPoolMean = 1, kPoolFirst = 2, kPoolLast = 3, kPoolRank = 4;

void read_pooling(GgufConfigReader& reader, EncoderConfig& config) {
  const int32_t kind = reader.int_or({"pooling_type"}, kPoolMean, {0, 1000});
  if (kind == kPoolRank) {
    config.kind = ModelKind::kClassifier;
  } else if (const auto pooling = gguf_pooling(kind)) {
    config.pooling = *pooling;
  } else {
    reader.fail(
        {ErrorCode::kUnsupported, fmt::format("{}.pooling_type {} is not supported", reader.architecture(), kind)});
  }
  config.head.num_labels = static_cast<int32_t>(reader.strings({"classifier.output_labels"}, 1 << 16).size());
}

RopeConfig rope_of(const EncoderConfig& config, float theta) {
  RopeConfig rope;
  rope.theta = theta;
  rope.rotary_dim = config.hidden_size / config.num_heads;
  return rope;
}

void read_modern_bert(GgufConfigReader& reader, EncoderConfig& config) {
  config.pre_norm = true;
  config.gated = config.fused_gate = true;
  config.qkv = QkvLayout::kFused;
  config.norm_bias = config.attention_bias = config.mlp_bias = Presence::kAbsent;
  config.ropes = {rope_of(config, reader.float_or({"rope.freq_base"}, 160000.0f, 1.001, 1e12)),
                  rope_of(config, reader.float_or({"rope.freq_base_swa"}, 10000.0f, 1.001, 1e12))};
  const int32_t local = reader.int_or({"attention.sliding_window"}, 0, {0, kPositionsMax});
  const std::vector<int64_t> pattern = reader.ints({"attention.sliding_window_pattern"}, kLayersMax);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    // A number is the distance of global layers; an array says it for each layer.
    const bool listed = pattern.size() > 1;
    if (listed && std::ssize(pattern) != config.num_layers) {
      reader.fail(fmt::format("{}.attention.sliding_window_pattern has {} values, must have {}", reader.architecture(),
                              pattern.size(), config.num_layers));
      return;
    }
    const int64_t every = pattern.size() == 1 && pattern[0] > 0 ? pattern[0] : 3;
    const bool sliding = local > 0 && (listed ? pattern[static_cast<size_t>(i)] != 0 : i % every != 0);
    config.layer_rope[static_cast<size_t>(i)] = sliding ? 1 : 0;
    config.window[static_cast<size_t>(i)] = sliding ? local / 2 + 1 : 0;
  }
  config.head = {.pooling = Pooling::kMean,
                 .dense = Presence::kIfPresent,
                 .dense_bias = Presence::kIfPresent,
                 .activation = Activation::kGelu,
                 .norm = true};
}

}  // namespace

std::optional<Pooling> gguf_pooling(int64_t pooling_type) {
  switch (pooling_type) {
    case kPoolMean: return Pooling::kMean;
    case kPoolFirst: return Pooling::kFirst;
    case kPoolLast: return Pooling::kLast;
    default: return std::nullopt;
  }
}

bool is_encoder_architecture(std::string_view architecture) {
  return architecture == "bert" || architecture == "nomic-bert" || architecture == "modern-bert";
}

void read_gguf_encoder(GgufConfigReader& reader, EncoderConfig& config) {
  config.family = reader.architecture();
  config.hidden_size = reader.require_int({"embedding_length"}, {1, kWidthMax});
  config.num_layers = reader.require_int({"block_count"}, {1, kLayersMax});
  config.num_heads = reader.require_int({"attention.head_count"}, {1, kHeadsMax});
  config.intermediate_size = reader.require_int({"feed_forward_length"}, {1, kWidthMax});
  config.tokens_max = reader.require_int({"context_length"}, {1, kPositionsMax});
  config.epsilon = reader.float_or({"attention.layer_norm_epsilon"}, 1e-12f, 0.0, 1.0);
  config.layer_rope.assign(static_cast<size_t>(config.num_layers), -1);
  config.window.assign(static_cast<size_t>(config.num_layers), 0);
  config.attention_bias = config.mlp_bias = Presence::kIfPresent;
  config.head.dense = config.head.dense_bias = Presence::kIfPresent;
  if (config.family == "modern-bert") {
    read_modern_bert(reader, config);
  } else if (config.family == "nomic-bert") {
    config.gated = true;
    config.qkv = QkvLayout::kFused;
    config.activation = Activation::kSilu;
    config.num_types = reader.int_or({"tokenizer.ggml.token_type_count"}, 2, {0, 1024});
    config.ropes = {rope_of(config, reader.float_or({"rope.freq_base"}, 1000.0f, 1.001, 1e12))};
    config.layer_rope.assign(static_cast<size_t>(config.num_layers), 0);
  } else {
    config.num_types = reader.int_or({"tokenizer.ggml.token_type_count"}, 2, {0, 1024});
    config.learned_positions = config.tokens_max;
  }
  read_pooling(reader, config);
}

}  // namespace quern
