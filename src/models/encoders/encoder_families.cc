// config.json of the encoder families. Defaults are those of the configuration classes in transformers.
#include <algorithm>

#include "base/status.h"
#include "models/encoders/encoder_readers.h"
#include "models/hf_config.h"

namespace quern {
namespace {

constexpr int32_t kTypesMax = 1024;

void no_rotation(EncoderConfig& config) {
  config.layer_rope.assign(static_cast<size_t>(config.num_layers), -1);
  config.window.assign(static_cast<size_t>(config.num_layers), 0);
}

void refuse_unless(HfConfigReader& reader, bool ok, std::string_view key, std::string_view value) {
  if (!ok) reader.fail({ErrorCode::kUnsupported, fmt::format("{} {} is not supported", key, value)});
}

void read_bert_sizes(HfConfigReader& reader, EncoderConfig& config) {
  config.vocab_size = reader.require_int({"vocab_size"}, {1, kVocabMax});
  config.hidden_size = reader.require_int({"hidden_size"}, {1, kWidthMax});
  config.num_layers = reader.require_int({"num_hidden_layers"}, {1, kLayersMax});
  config.num_heads = reader.require_int({"num_attention_heads"}, {1, kHeadsMax});
  config.intermediate_size = reader.require_int({"intermediate_size"}, {1, kWidthMax});
  config.epsilon = reader.float_or({"layer_norm_eps"}, 1e-12f, 0.0, 1.0);
  no_rotation(config);
}

void read_learned_positions(HfConfigReader& reader, EncoderConfig& config) {
  config.learned_positions = reader.require_int({"max_position_embeddings"}, {1, kPositionsMax});
  config.tokens_max = config.learned_positions - config.position_offset;
  const std::string kind = reader.string_or({"position_embedding_type"}, "absolute");
  refuse_unless(reader, kind == "absolute", "position_embedding_type", kind);
}

// BERT (arXiv 1810.04805).
void read_bert(HfConfigReader& reader, EncoderConfig& config) {
  read_bert_sizes(reader, config);
  read_learned_positions(reader, config);
  config.num_types = reader.int_or({"type_vocab_size"}, 2, {1, kTypesMax});
  config.activation = read_hf_activation(reader, "gelu");
  config.head.dense = Presence::kRequired;
}

// RoBERTa (arXiv 1907.11692) and XLM-RoBERTa (arXiv 1911.02116): positions are counted from the padding id on.
void read_roberta(HfConfigReader& reader, EncoderConfig& config) {
  read_bert_sizes(reader, config);
  config.position_offset = reader.int_or({"pad_token_id"}, 1, {0, kVocabMax}) + 1;
  read_learned_positions(reader, config);
  config.num_types = reader.int_or({"type_vocab_size"}, 2, {1, kTypesMax});
  config.activation = read_hf_activation(reader, "gelu");
  config.head.dense = Presence::kRequired;
}

// DistilBERT (arXiv 1910.01108).
void read_distilbert(HfConfigReader& reader, EncoderConfig& config) {
  config.vocab_size = reader.require_int({"vocab_size"}, {1, kVocabMax});
  config.hidden_size = reader.require_int({"dim"}, {1, kWidthMax});
  config.num_layers = reader.require_int({"n_layers"}, {1, kLayersMax});
  config.num_heads = reader.require_int({"n_heads"}, {1, kHeadsMax});
  config.intermediate_size = reader.require_int({"hidden_dim"}, {1, kWidthMax});
  config.epsilon = 1e-12f;
  no_rotation(config);
  read_learned_positions(reader, config);
  config.activation = read_hf_activation(reader, "activation", "gelu");
  config.head.dense = Presence::kRequired;
  config.head.activation = Activation::kRelu;
}

// Nomic Embed (arXiv 2402.01613): BERT with rotary embeddings and a gated feed-forward part, without most biases. Its
// configuration keeps the names of GPT-2; the newer ones are those of BERT.
void read_nomic_bert(HfConfigReader& reader, EncoderConfig& config) {
  config.vocab_size = reader.require_int({"vocab_size"}, {1, kVocabMax});
  config.hidden_size = reader.require_int({"hidden_size", "n_embd"}, {1, kWidthMax});
  config.num_layers = reader.require_int({"num_hidden_layers", "n_layer"}, {1, kLayersMax});
  config.num_heads = reader.require_int({"num_attention_heads", "n_head"}, {1, kHeadsMax});
  config.intermediate_size = reader.require_int({"intermediate_size", "n_inner"}, {1, kWidthMax});
  config.tokens_max = reader.require_int({"max_position_embeddings", "n_positions"}, {1, kPositionsMax});
  config.num_types = reader.int_or({"type_vocab_size"}, 2, {0, kTypesMax});
  config.epsilon = reader.float_or({"layer_norm_eps", "layer_norm_epsilon"}, 1e-12f, 0.0, 1.0);
  no_rotation(config);

  for (std::string_view key : {"prenorm", "parallel_block", "causal", "use_rms_norm", "rotary_emb_interleaved"}) {
    refuse_unless(reader, !reader.bool_or({key}, false), key, "true");
  }
  const int32_t moe = reader.int_or({"moe_every_n_layers"}, 0, {0, kLayersMax});
  refuse_unless(reader, moe == 0, "moe_every_n_layers", std::to_string(moe));
  const std::string activation = reader.string_or({"activation_function"}, "swiglu");
  refuse_unless(reader, activation == "swiglu", "activation_function", activation);
  config.activation = reader.has("hidden_act") ? read_hf_activation(reader, "silu") : Activation::kSilu;
  config.gated = true;
  config.qkv = QkvLayout::kFused;
  config.attention_bias = presence(reader.bool_or({"qkv_proj_bias"}, false));
  config.mlp_bias = presence(reader.bool_or({"mlp_fc1_bias"}, false));
  if (reader.bool_or({"mlp_fc2_bias"}, false) != (config.mlp_bias == Presence::kRequired)) {
    reader.fail({ErrorCode::kUnsupported, "mlp_fc2_bias differs from mlp_fc1_bias, which is not supported"});
  }
  const float fraction = reader.float_or({"rotary_emb_fraction"}, 1.0f, 0.0, 1.0);
  RopeConfig rope;
  rope.theta = reader.float_or({"rope_parameters.rope_theta", "rope_theta", "rotary_emb_base"}, 1000.0f, 1.001, 1e12);
  rope.rotary_dim = static_cast<int32_t>(static_cast<float>(config.hidden_size / config.num_heads) * fraction);
  config.ropes = {rope};
  config.layer_rope.assign(static_cast<size_t>(config.num_layers), 0);
}

// ModernBERT (arXiv 2412.13663): every n-th layer attends globally, the others within a window, with two rope bases.
void read_modernbert(HfConfigReader& reader, EncoderConfig& config) {
  read_bert_sizes(reader, config);
  config.tokens_max = reader.require_int({"max_position_embeddings"}, {1, kPositionsMax});
  config.epsilon = reader.float_or({"norm_eps"}, 1e-5f, 0.0, 1.0);
  config.activation = read_hf_activation(reader, "gelu");
  config.pre_norm = true;
  config.gated = config.fused_gate = true;
  config.qkv = QkvLayout::kFused;
  config.norm_bias = presence(reader.bool_or({"norm_bias"}, false));
  config.attention_bias = presence(reader.bool_or({"attention_bias"}, false));
  config.mlp_bias = presence(reader.bool_or({"mlp_bias"}, false));

  const int32_t global_every = reader.int_or({"global_attn_every_n_layers"}, 3, {1, kLayersMax});
  const int32_t local = reader.int_or({"local_attention"}, 128, {2, kPositionsMax});
  const std::vector<uint8_t> sliding = read_hf_sliding_layers(
      reader, config.num_layers, [global_every](int32_t layer) { return layer % global_every != 0; });
  RopeConfig global, near;
  global.theta =
      reader.float_or({"rope_parameters.full_attention.rope_theta", "global_rope_theta"}, 160000.0f, 1.001, 1e12);
  near.theta =
      reader.float_or({"rope_parameters.sliding_attention.rope_theta", "local_rope_theta"}, 10000.0f, 1.001, 1e12);
  global.rotary_dim = near.rotary_dim = config.hidden_size / config.num_heads;
  config.ropes = {global, near};
  for (size_t i = 0; i < sliding.size(); ++i) {
    config.layer_rope[i] = sliding[i] != 0 ? 1 : 0;
    config.window[i] = sliding[i] != 0 ? local / 2 + 1 : 0;  // a token sees local / 2 to each side
  }

  config.head.dense = Presence::kRequired;
  config.head.dense_bias = presence(reader.bool_or({"classifier_bias"}, false));
  config.head.norm = true;
  config.head.activation = read_hf_activation(reader, "classifier_activation", "gelu");
  const std::string pooling = reader.string_or({"classifier_pooling"}, "cls");
  refuse_unless(reader, pooling == "cls" || pooling == "mean", "classifier_pooling", pooling);
  config.head.pooling = pooling == "mean" ? Pooling::kMean : Pooling::kFirst;
}

constexpr EncoderFamily kFamilies[] = {
    {"bert", read_bert},
    {"roberta", read_roberta},
    {"xlm-roberta", read_roberta},
    {"camembert", read_roberta},
    {"distilbert", read_distilbert},
    {"nomic_bert", read_nomic_bert},
    {"modernbert", read_modernbert},
};

}  // namespace

const EncoderFamily* find_encoder_family(std::string_view model_type) {
  const auto it = std::ranges::find(kFamilies, model_type, &EncoderFamily::model_type);
  return it == std::end(kFamilies) ? nullptr : it;
}

}  // namespace quern
