#include "models/hf_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "models/rope.h"

namespace quern {

namespace {

constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},          {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python", Activation::kGelu},   {"quick_gelu", Activation::kQuickGelu},
    {"relu", Activation::kRelu},          {"relu2", Activation::kReluSquared},
    {"tanh", Activation::kTanh},          {"sigmoid", Activation::kSigmoid},
};

void read_sizes(HfConfigReader& reader, ModelConfig& config, const HfDefaults& defaults) {
  const auto int_with_default = [&](ConfigReader::Keys keys, int32_t fallback, Bounds bounds) {
    return fallback > 0 ? reader.int_or(keys, fallback, bounds) : reader.require_int(keys, bounds);
  };
  config.vocab_size = int_with_default({"vocab_size"}, defaults.vocab, {1, kVocabMax});
  config.hidden_size = reader.require_int({"hidden_size", "n_embd", "d_model"}, {1, kWidthMax});
  config.num_layers = reader.require_int({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, {1, kLayersMax});
  config.context_length =
      int_with_default({"max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx"},
                       defaults.context, {1, kPositionsMax});

  AttentionConfig& attention = config.attention;
  attention.num_heads = int_with_default({"num_attention_heads", "n_head", "n_heads"}, defaults.heads, {1, kHeadsMax});
  attention.num_kv_heads = reader.int_or(
      {"num_key_value_heads"}, defaults.kv_heads > 0 ? defaults.kv_heads : attention.num_heads, {1, kHeadsMax});
  if (reader.has("head_dim") || defaults.head_dim > 0) {
    attention.head_dim = reader.int_or({"head_dim"}, defaults.head_dim, {1, kHeadDimMax});
  } else if (config.hidden_size % attention.num_heads == 0) {
    attention.head_dim = config.hidden_size / attention.num_heads;
  } else {
    reader.fail(fmt::format("num_attention_heads is {}, which does not divide hidden_size {}", attention.num_heads,
                            config.hidden_size));
  }
  attention.value_dim = attention.head_dim;
  config.mlp.intermediate_size = reader.int_or({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"},
                                               4 * config.hidden_size, {1, 4 * kWidthMax});
}

RopeScaling read_scaling_kind(HfConfigReader& reader, const std::string& scope) {
  const std::string name = reader.string_or({scope + ".rope_type", scope + ".type"}, "default");
  if (name == "default") return RopeScaling::kNone;
  if (name == "linear") return RopeScaling::kLinear;
  if (name == "dynamic") return RopeScaling::kDynamic;
  if (name == "llama3") return RopeScaling::kLlama3;
  if (name == "yarn") return RopeScaling::kYarn;
  if (name == "longrope" || name == "su") return RopeScaling::kLongRope;
  reader.fail({ErrorCode::kUnsupported, fmt::format("{}.rope_type \"{}\" is not supported", scope, name)});
  return RopeScaling::kNone;
}

std::vector<float> read_factors(HfConfigReader& reader, const std::string& key, int32_t count) {
  const std::vector<double> values = reader.floats({key}, static_cast<size_t>(count));
  if (std::ssize(values) != count) {
    reader.fail(fmt::format("{} has {} values, must have {}", key, values.size(), count));
    return std::vector<float>(static_cast<size_t>(count), 1.0f);
  }
  std::vector<float> factors(values.begin(), values.end());
  if (std::ranges::any_of(factors, [](float f) { return !(f > 0.0f && f < 1e9f); })) {
    reader.fail(fmt::format("{} has a value that is not positive", key));
  }
  return factors;
}

// The numbers a scaling needs; the fallbacks are those of transformers' modeling_rope_utils.
void read_scaling(HfConfigReader& reader, const ModelConfig& config, const std::string& scope, RopeConfig& rope) {
  const auto key = [&](std::string_view name) { return scope + "." + std::string(name); };
  const std::string original = key("original_max_position_embeddings");
  rope.original_context =
      reader.int_or({original, "original_max_position_embeddings"}, config.context_length, {1, kPositionsMax});
  const float context_ratio = static_cast<float>(config.context_length) / static_cast<float>(rope.original_context);
  rope.factor = reader.float_or({key("factor")}, context_ratio, 1e-3, 1e6);

  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kLinear: break;
    case RopeScaling::kDynamic: rope.original_context = config.context_length; break;
    case RopeScaling::kLlama3:
      rope.low_freq_factor = reader.require_float({key("low_freq_factor")}, 1e-6, 1e6);
      rope.high_freq_factor = reader.require_float({key("high_freq_factor")}, 1e-6, 1e6);
      if (rope.high_freq_factor == rope.low_freq_factor) {
        reader.fail(fmt::format("{} equals low_freq_factor ({})", key("high_freq_factor"), rope.low_freq_factor));
      }
      break;
    case RopeScaling::kYarn: {
      rope.beta_fast = reader.float_or({key("beta_fast")}, 32.0f, 1e-6, 1e6);
      rope.beta_slow = reader.float_or({key("beta_slow")}, 1.0f, 1e-6, 1e6);
      rope.truncate = reader.bool_or({key("truncate")}, true);
      const float m = reader.float_or({key("mscale")}, 0.0f, 0.0, 1e3);
      const float m_all = reader.float_or({key("mscale_all_dim")}, 0.0f, 0.0, 1e3);
      const float inferred = m > 0.0f && m_all > 0.0f ? yarn_mscale(rope.factor, m) / yarn_mscale(rope.factor, m_all)
                                                      : yarn_mscale(rope.factor, 1.0f);
      rope.attention_factor = reader.float_or({key("attention_factor")}, inferred, 1e-6, 1e6);
      break;
    }
    case RopeScaling::kLongRope: {
      rope.short_factors = read_factors(reader, key("short_factor"), rope.rotary_dim / 2);
      rope.long_factors = read_factors(reader, key("long_factor"), rope.rotary_dim / 2);
      // A file that says its original context at the top level means the ratio of the two contexts.
      if (reader.has("original_max_position_embeddings")) rope.factor = context_ratio;
      const float inferred =
          rope.factor <= 1.0f || rope.original_context < 2
              ? 1.0f
              : std::sqrt(1.0f + std::log(rope.factor) / std::log(static_cast<float>(rope.original_context)));
      rope.attention_factor = reader.float_or({key("attention_factor")}, inferred, 1e-6, 1e6);
      break;
    }
  }
}

void read_special_tokens(HfConfigReader& reader, ModelConfig& config) {
  for (int64_t id : reader.ints({"eos_token_id"}, 64)) {
    if (id >= 0 && id < config.vocab_size) config.eos_ids.push_back(static_cast<int32_t>(id));
  }
  const std::vector<int64_t> bos = reader.ints({"bos_token_id"}, 64);
  if (!bos.empty() && bos[0] >= 0 && bos[0] < config.vocab_size) config.bos_id = static_cast<int32_t>(bos[0]);
}

}  // namespace

void read_hf_common(HfConfigReader& reader, ModelConfig& config, const HfDefaults& defaults) {
  read_sizes(reader, config, defaults);
  config.norm.epsilon = reader.float_or(
      {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}, defaults.epsilon, 0.0, 1.0);
  config.attention.scale = 1.0f / std::sqrt(static_cast<float>(std::max(config.attention.head_dim, 1)));
  config.attention.qk_norm_config.epsilon = config.norm.epsilon;
  config.mlp.activation = read_hf_activation(reader, defaults.activation);
  config.tied_output = reader.bool_or({"tie_word_embeddings"}, defaults.tied);
  config.attention.window.assign(static_cast<size_t>(config.num_layers), 0);
  config.moe.is_moe.assign(static_cast<size_t>(config.num_layers), 0);
  config.layer_rope.assign(static_cast<size_t>(config.num_layers), 0);
  const std::string_view scope = reader.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  config.ropes = {read_hf_rope(reader, config, scope, defaults)};
  const RopeConfig& rope = config.ropes[0];
  if (rope.scaling == RopeScaling::kLinear || rope.scaling == RopeScaling::kDynamic) {
    config.context_length =
        static_cast<int32_t>(std::min<double>(static_cast<double>(config.context_length) * rope.factor, kPositionsMax));
  } else if (rope.scaling == RopeScaling::kYarn) {
    const double stretched = static_cast<double>(rope.original_context) * rope.factor;
    config.context_length = static_cast<int32_t>(std::clamp<double>(stretched, 1.0, kPositionsMax));
  }
  read_special_tokens(reader, config);
}

RopeConfig read_hf_rope(HfConfigReader& reader, const ModelConfig& config, std::string_view scope_name,
                        const HfDefaults& defaults) {
  const std::string scope(scope_name);
  RopeConfig rope;
  rope.theta = reader.float_or({scope + ".rope_theta", "rope_theta", "rotary_emb_base"}, defaults.theta, 1.0, 1e12);
  if (rope.theta <= 1.0f) reader.fail(fmt::format("rope_theta is {}, must be above 1", rope.theta));
  const float partial = reader.float_or(
      {scope + ".partial_rotary_factor", "partial_rotary_factor", "rotary_pct", "rotary_percentage", "rope_pct"},
      defaults.partial_rotary, 0.0, 1.0);
  rope.rotary_dim = static_cast<int32_t>(static_cast<float>(config.attention.head_dim) * partial);
  rope.scaling = read_scaling_kind(reader, scope);
  if (rope.scaling != RopeScaling::kNone) read_scaling(reader, config, scope, rope);
  return rope;
}

int32_t read_hf_window(HfConfigReader& reader, int32_t fallback) {
  if (reader.says_null("sliding_window")) return 0;
  return reader.int_or({"sliding_window"}, fallback, {1, kPositionsMax});
}

float read_hf_softcap(HfConfigReader& reader, std::string_view key, float fallback) {
  return reader.says_null(key) ? 0.0f : reader.float_or({key}, fallback, 0.0, 1e9);
}

std::vector<uint8_t> read_hf_sliding_layers(HfConfigReader& reader, int32_t num_layers,
                                            const std::function<bool(int32_t layer)>& sliding) {
  std::vector<uint8_t> result(static_cast<size_t>(num_layers), 0);
  if (!reader.has("layer_types")) {
    for (int32_t i = 0; i < num_layers; ++i) result[static_cast<size_t>(i)] = sliding(i) ? 1 : 0;
    return result;
  }
  const std::vector<std::string> types = reader.strings({"layer_types"}, kLayersMax);
  if (std::ssize(types) != num_layers) {
    reader.fail(fmt::format("layer_types has {} entries, must have one per layer ({})", types.size(), num_layers));
    return result;
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      reader.fail({ErrorCode::kUnsupported, fmt::format("layer_types has \"{}\", which is not supported", types[i])});
    }
    result[i] = types[i] == "sliding_attention" ? 1 : 0;
  }
  return result;
}

void read_hf_windows(HfConfigReader& reader, ModelConfig& config, int32_t window,
                     const std::function<bool(int32_t layer)>& sliding) {
  const std::vector<uint8_t> layers = read_hf_sliding_layers(reader, config.num_layers, sliding);
  for (size_t i = 0; i < layers.size(); ++i) config.attention.window[i] = layers[i] != 0 ? window : 0;
}

void read_hf_sparse_layers(HfConfigReader& reader, ModelConfig& config) {
  const int32_t step = reader.int_or({"decoder_sparse_step"}, 1, {1, kLayersMax});
  const std::vector<int64_t> dense = reader.ints({"mlp_only_layers"}, kLayersMax);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    const bool is_dense = std::ranges::find(dense, i) != dense.end();
    config.moe.is_moe[static_cast<size_t>(i)] = !is_dense && (i + 1) % step == 0 ? 1 : 0;
  }
}

Activation read_hf_activation(HfConfigReader& reader, std::string_view key, std::string_view fallback) {
  const std::string name = reader.string_or({key}, std::string(fallback));
  for (const auto& [known, activation] : kActivations) {
    if (name == known) return activation;
  }
  reader.fail({ErrorCode::kUnsupported, fmt::format("{} \"{}\" is not supported", key, name)});
  return Activation::kSilu;
}

Activation read_hf_activation(HfConfigReader& reader, std::string_view fallback) {
  for (std::string_view key : {"hidden_activation", "hidden_act", "activation_function"}) {
    if (reader.has(key)) return read_hf_activation(reader, key, fallback);
  }
  return read_hf_activation(reader, "hidden_act", fallback);
}

}  // namespace quern
