#include "models/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "models/rope.h"

namespace quern {
namespace {

void read_attention(GgufConfigReader& reader, ModelConfig& config) {
  AttentionConfig& attention = config.attention;
  attention.num_heads = reader.require_int({"attention.head_count"}, {1, kHeadsMax});
  attention.num_kv_heads = reader.int_or({"attention.head_count_kv"}, attention.num_heads, {1, kHeadsMax});
  if (reader.has("attention.key_length")) {
    attention.head_dim = reader.require_int({"attention.key_length"}, {1, kHeadDimMax});
  } else if (config.hidden_size % attention.num_heads == 0) {
    attention.head_dim = config.hidden_size / attention.num_heads;
  } else {
    reader.fail(fmt::format("{}.attention.head_count is {}, which does not divide embedding_length {}",
                            reader.architecture(), attention.num_heads, config.hidden_size));
  }
  attention.value_dim = reader.int_or({"attention.value_length"}, attention.head_dim, {1, kHeadDimMax});
  attention.scale = 1.0f / std::sqrt(static_cast<float>(std::max(attention.head_dim, 1)));
}

RopeConfig read_rope(GgufConfigReader& reader, ModelConfig& config, const GgufDefaults& defaults) {
  RopeConfig rope;
  rope.style = defaults.style;
  rope.theta = reader.float_or({"rope.freq_base"}, defaults.theta, 1.0, 1e12);
  if (rope.theta <= 1.0f)
    reader.fail(fmt::format("{}.rope.freq_base is {}, must be above 1", reader.architecture(), rope.theta));
  rope.rotary_dim = reader.int_or({"rope.dimension_count"}, config.attention.head_dim, {0, kHeadDimMax});
  rope.factor = reader.float_or({"rope.scaling.factor", "rope.scale_linear"}, 1.0f, 0.0, 1e6);
  if (rope.factor == 0.0f) rope.factor = 1.0f;  // files write 0 for "none"
  if (rope.factor < 1e-3f) {
    reader.fail(
        fmt::format("{}.rope.scaling.factor is {}, must be at least 0.001", reader.architecture(), rope.factor));
  }
  rope.original_context =
      reader.int_or({"rope.scaling.original_context_length"}, config.context_length, {1, kPositionsMax});
  rope.attention_factor = reader.float_or({"rope.scaling.attn_factor"}, 1.0f, 1e-6, 1e6);
  const std::string kind = reader.string_or({"rope.scaling.type"}, reader.has("rope.scale_linear") ? "linear" : "none");
  if (kind == "linear") {
    rope.scaling = rope.factor == 1.0f ? RopeScaling::kNone : RopeScaling::kLinear;
  } else if (kind == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.beta_fast = reader.float_or({"rope.scaling.yarn_beta_fast"}, 32.0f, 1e-6, 1e6);
    rope.beta_slow = reader.float_or({"rope.scaling.yarn_beta_slow"}, 1.0f, 1e-6, 1e6);
    rope.attention_factor = reader.float_or({"rope.scaling.yarn_attn_factor"},
                                            rope.attention_factor * yarn_mscale(rope.factor, 1.0f), 1e-6, 1e6);
    const double stretched = static_cast<double>(rope.original_context) * rope.factor;
    config.context_length = static_cast<int32_t>(std::clamp<double>(stretched, config.context_length, kPositionsMax));
  } else if (kind == "longrope") {
    rope.scaling = RopeScaling::kLongRope;
  } else if (kind != "none") {
    reader.fail({ErrorCode::kUnsupported,
                 fmt::format("{}.rope.scaling.type \"{}\" is not supported", reader.architecture(), kind)});
  }
  return rope;
}

void read_special_tokens(GgufConfigReader& reader, ModelConfig& config) {
  const auto known = [&](int64_t id) { return id >= 0 && id < config.vocab_size; };
  for (std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    for (int64_t id : reader.ints({key}, 64)) {
      const auto narrow = static_cast<int32_t>(id);
      if (known(id) && std::ranges::find(config.eos_ids, narrow) == config.eos_ids.end())
        config.eos_ids.push_back(narrow);
    }
  }
  const std::vector<int64_t> bos = reader.ints({"tokenizer.ggml.bos_token_id"}, 1);
  if (!bos.empty() && known(bos[0])) config.bos_id = static_cast<int32_t>(bos[0]);
}

}  // namespace

void read_gguf_common(GgufConfigReader& reader, ModelConfig& config, const GgufDefaults& defaults) {
  config.hidden_size = reader.require_int({"embedding_length"}, {1, kWidthMax});
  config.num_layers = reader.require_int({"block_count"}, {1, kLayersMax});
  config.context_length = reader.require_int({"context_length"}, {1, kPositionsMax});
  config.mlp.intermediate_size = reader.int_or({"feed_forward_length"}, 0, {0, 4 * kWidthMax});
  config.norm.epsilon =
      reader.float_or({"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}, 1e-5f, 0.0, 1.0);
  read_attention(reader, config);
  config.attention.qk_norm_config.epsilon = config.norm.epsilon;
  config.attention.window.assign(static_cast<size_t>(config.num_layers), 0);
  config.moe.is_moe.assign(static_cast<size_t>(config.num_layers), 0);
  config.layer_rope.assign(static_cast<size_t>(config.num_layers), 0);
  config.ropes = {read_rope(reader, config, defaults)};
  config.embedding_scale = reader.float_or({"embedding_scale"}, 1.0f, 1e-6, 1e6);
  read_special_tokens(reader, config);
}

void read_gguf_moe(GgufConfigReader& reader, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.num_experts = reader.int_or({"expert_count"}, 0, {0, kExpertsMax});
  if (moe.num_experts == 0) return;
  moe.router.top_k = reader.require_int({"expert_used_count"}, {1, moe.num_experts});
  moe.intermediate_size = reader.int_or({"expert_feed_forward_length", "feed_forward_length"}, 0, {1, 4 * kWidthMax});
  const int32_t num_shared = reader.int_or({"expert_shared_count"}, 0, {0, 64});
  moe.shared_intermediate_size =
      reader.int_or({"expert_shared_feed_forward_length"}, num_shared * moe.intermediate_size, {0, 4 * kWidthMax});
  moe.router.scale = reader.float_or({"expert_weights_scale"}, 1.0f, 0.0, 1e6);
  if (moe.router.scale == 0.0f) moe.router.scale = 1.0f;  // files write 0 for "none"
  moe.router.normalize = reader.bool_or({"expert_weights_norm"}, false);
  const int32_t gating = reader.int_or({"expert_gating_func"}, 1, {0, 3});  // 1 softmax, 2 sigmoid, 3 softmax of chosen
  moe.router.sigmoid = gating == 2;
  moe.router.softmax_after_top_k = gating == 3;
  moe.router.num_groups = std::max(reader.int_or({"expert_group_count"}, 1, {0, kExpertsMax}), 1);
  moe.router.top_groups = std::max(reader.int_or({"expert_group_used_count"}, 1, {0, kExpertsMax}), 1);
  const int32_t dense = reader.int_or({"leading_dense_block_count"}, 0, {0, kLayersMax});
  for (int32_t i = dense; i < config.num_layers; ++i) moe.is_moe[static_cast<size_t>(i)] = 1;
}

void read_gguf_windows(GgufConfigReader& reader, ModelConfig& config,
                       const std::function<bool(int32_t layer)>& sliding) {
  const int32_t window = reader.int_or({"attention.sliding_window"}, 0, {0, kPositionsMax});
  for (int32_t i = 0; i < config.num_layers; ++i) {
    config.attention.window[static_cast<size_t>(i)] = sliding(i) ? window : 0;
  }
}

}  // namespace quern
