#include "models/bind_decoder.h"

#include "base/check.h"
#include "base/status.h"
#include "models/bind_mla.h"
#include "models/bind_moe.h"
#include "models/tensor_binder.h"

namespace quern {
namespace {

// Row ranges of query, key and value heads in a fused matrix.
struct QkvRanges {
  std::vector<RowRange> query, key, value;
};
QkvRanges qkv_ranges(const AttentionConfig& attention) {
  const int64_t heads = attention.num_heads, kv_heads = attention.num_kv_heads;
  const int64_t head_dim = attention.head_dim, value_dim = attention.value_dim;
  if (attention.layout == QkvLayout::kFused) {
    const int64_t keys = heads * head_dim, values = keys + kv_heads * head_dim;
    return {{{0, keys}}, {{keys, kv_heads * head_dim}}, {{values, kv_heads * value_dim}}};
  }
  QkvRanges ranges;
  const int64_t query_rows = heads / kv_heads * head_dim;
  for (int64_t group = 0; group < kv_heads; ++group) {
    const int64_t begin = group * (query_rows + head_dim + value_dim);
    ranges.query.push_back({begin, query_rows});
    ranges.key.push_back({begin + query_rows, head_dim});
    ranges.value.push_back({begin + query_rows + head_dim, value_dim});
  }
  return ranges;
}

Status bind_qkv(TensorBinder& binder, const ModelConfig& config, int32_t layer, LayerWeights& out) {
  const AttentionConfig& attention = config.attention;
  const TensorNames& names = binder.names();
  const int64_t hidden = config.hidden_size;
  const int64_t query_rows = int64_t{attention.num_heads} * attention.head_dim;
  const int64_t key_rows = int64_t{attention.num_kv_heads} * attention.head_dim;
  const int64_t value_rows = int64_t{attention.num_kv_heads} * attention.value_dim;
  if (attention.layout == QkvLayout::kSeparate) {
    QUERN_TRY(binder.linear(names.query, layer, query_rows, hidden, attention.qkv_bias, out.query));
    QUERN_TRY(binder.linear(names.key, layer, key_rows, hidden, attention.qkv_bias, out.key));
    return binder.linear(names.value, layer, value_rows, hidden, attention.qkv_bias, out.value);
  }
  QkvRanges ranges = qkv_ranges(attention);
  const TensorBinder::Slice slices[] = {
      {std::move(ranges.query), &out.query}, {std::move(ranges.key), &out.key}, {std::move(ranges.value), &out.value}};
  return binder.fused_linear(names.qkv, layer, query_rows + key_rows + value_rows, hidden, attention.qkv_bias, slices);
}

// One tensor per head, put side by side.
Status bind_norms_per_head(TensorBinder& binder, std::string_view pattern, int32_t layer,
                           const AttentionConfig& attention, int64_t heads, NormWeights& out) {
  std::vector<float> weights;
  for (int32_t head = 0; head < heads; ++head) {
    const std::string name = binder.prefixed(pattern, layer, head) + ".weight";
    QUERN_ASSIGN(const std::vector<float> one, binder.take_floats(name, {attention.head_dim}));
    weights.insert(weights.end(), one.begin(), one.end());
  }
  QUERN_ASSIGN(out.weight, binder.upload(weights));
  return {};
}

// Weights of one head, or of `heads` heads side by side; some files write the latter as a matrix.
Status bind_qk_norm(TensorBinder& binder, std::string_view pattern, int32_t layer, const AttentionConfig& attention,
                    int64_t heads, NormWeights& out) {
  const size_t hole = pattern.find("{}");
  if (hole != std::string_view::npos && pattern.find("{}", hole + 2) != std::string_view::npos) {
    return bind_norms_per_head(binder, pattern, layer, attention, heads, out);
  }
  const std::string base = binder.prefixed(pattern, layer);
  const TensorView* view = binder.file().find(base + ".weight");
  const bool matrix = view != nullptr && view->shape.size() == 2;
  const Shape shape = matrix ? Shape{heads, attention.head_dim} : Shape{heads * attention.head_dim};
  QUERN_TRY(binder.vector(base + ".weight", shape, Presence::kRequired, out.weight));
  return binder.vector(base + ".bias", shape, attention.qk_norm_config.bias, out.bias);
}

Status bind_attention(TensorBinder& binder, const ModelConfig& config, int32_t layer, LayerWeights& out) {
  const AttentionConfig& attention = config.attention;
  const TensorNames& names = binder.names();
  if (attention.mla.kv_lora_rank > 0) {
    QUERN_TRY(bind_mla(binder, config, layer, out));
  } else {
    QUERN_TRY(bind_qkv(binder, config, layer, out));
  }
  const int64_t output_cols = int64_t{attention.num_heads} * attention.value_dim;
  QUERN_TRY(
      binder.linear(names.attention_output, layer, config.hidden_size, output_cols, attention.output_bias, out.output));
  if (attention.qk_norm != QkNorm::kNone) {
    const bool per_head = attention.qk_norm == QkNorm::kPerHead;
    const int64_t query_heads = per_head ? 1 : attention.num_heads;
    const int64_t key_heads = per_head ? 1 : attention.num_kv_heads;
    QUERN_TRY(bind_qk_norm(binder, names.query_norm, layer, attention, query_heads, out.query_norm));
    QUERN_TRY(bind_qk_norm(binder, names.key_norm, layer, attention, key_heads, out.key_norm));
  }
  if (!attention.sinks) return {};
  return binder.vector(binder.prefixed(names.sinks, layer), {attention.num_heads}, Presence::kRequired, out.sinks);
}

Status bind_mlp_or_moe(TensorBinder& binder, const ModelConfig& config, int32_t layer, LayerWeights& out) {
  if (config.moe.is_moe[static_cast<size_t>(layer)] != 0) return bind_moe(binder, config, layer, out.moe);
  return bind_mlp(binder, {binder.names().gate, binder.names().up, binder.names().gate_up, binder.names().down}, layer,
                  config.mlp, config.hidden_size, out.mlp);
}

Status bind_layer(TensorBinder& binder, const ModelConfig& config, int32_t layer, LayerWeights& out) {
  const TensorNames& names = binder.names();
  const int64_t hidden = config.hidden_size;
  const bool pre = config.block != BlockLayout::kPost;
  const bool post = config.block == BlockLayout::kPost || config.block == BlockLayout::kSandwich;
  if (pre) QUERN_TRY(binder.norm(names.attention_norm, layer, config.norm, hidden, out.attention_norm));
  if (post) QUERN_TRY(binder.norm(names.attention_post_norm, layer, config.norm, hidden, out.attention_post_norm));
  if (pre && config.block != BlockLayout::kParallelShared) {
    QUERN_TRY(binder.norm(names.mlp_norm, layer, config.norm, hidden, out.mlp_norm));
  }
  if (post) QUERN_TRY(binder.norm(names.mlp_post_norm, layer, config.norm, hidden, out.mlp_post_norm));
  binder.set_role(WeightRole::kAttention);
  QUERN_TRY(bind_attention(binder, config, layer, out));
  binder.set_role(WeightRole::kFfn);
  QUERN_TRY(bind_mlp_or_moe(binder, config, layer, out));
  binder.set_role(WeightRole::kKept);
  return {};
}

Status bind_output(TensorBinder& binder, const ModelConfig& config, DecoderWeights& out) {
  const TensorNames& names = binder.names();
  std::string name;
  for (std::string_view candidate : names.outputs) {
    if (name.empty() && binder.file().find(std::string(candidate) + ".weight") != nullptr) name = candidate;
  }
  if (config.tied_output) {
    // Some files carry the tied matrix a second time.
    if (!name.empty()) binder.ignore(name + ".weight");
    out.output.weight = out.embed;
    const TensorView* embed = binder.file().find(binder.prefixed(names.embed) + ".weight");
    QUERN_CHECK(embed != nullptr);
    const WeightRows rows = rows_of(*embed, config.hidden_size);
    binder.set_role(WeightRole::kOutput);
    if (binder.rounds(WeightRole::kOutput, rows)) {
      QUERN_ASSIGN(out.output.weight,
                   binder.pack({&rows, 1}, 1, binder.precision(), binder.prefixed(names.embed) + ".weight"));
    }
    const std::string bias = std::string(name.empty() ? names.outputs[0] : name) + ".bias";
    return binder.vector(bias, {config.vocab_size}, config.output_bias, out.output.bias);
  }
  if (name.empty()) name = names.outputs[0];
  binder.set_role(WeightRole::kOutput);
  QUERN_ASSIGN(const TensorView view, binder.take(name + ".weight", {config.vocab_size, config.hidden_size}));
  const WeightRows part = rows_of(view, config.hidden_size);
  QUERN_ASSIGN(out.output.weight, binder.pack({&part, 1}, 1, binder.precision(), name));
  return binder.vector(name + ".bias", {config.vocab_size}, config.output_bias, out.output.bias);
}

}  // namespace

Result<DecoderWeights> bind_decoder(const TensorFile& file, const TensorNames& names, const ModelConfig& config,
                                    Device& device, const LoadOptions& options) {
  DecoderWeights weights;
  TensorBinder binder(file, names, device, options, weights.store);
  const std::string embed_name = binder.prefixed(names.embed) + ".weight";
  QUERN_ASSIGN(const TensorView embed, binder.take(embed_name, {config.vocab_size, config.hidden_size}));
  const WeightRows embed_rows = rows_of(embed, config.hidden_size);
  // A tied output matrix that is rounded is a weight of its own: then only rows of the table are read, where the file
  // is mapped.
  const bool split = config.tied_output && binder.rounds(WeightRole::kOutput, embed_rows);
  QUERN_ASSIGN(weights.embed,
               binder.pack({&embed_rows, 1}, 1, split ? Precision::kExact : options.precision, embed_name));
  if (config.learned_positions > 0) {
    const std::string name = binder.prefixed(names.positions) + ".weight";
    QUERN_ASSIGN(const TensorView view, binder.take(name, {config.learned_positions, config.hidden_size}));
    const WeightRows rows = rows_of(view, config.hidden_size);
    QUERN_ASSIGN(weights.positions, binder.pack({&rows, 1}, 1, Precision::kExact, name));
  }
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    QUERN_TRY(bind_layer(binder, config, layer, weights.layers[static_cast<size_t>(layer)]));
  }
  QUERN_TRY(binder.norm(names.final_norm, 0, config.norm, config.hidden_size, weights.final_norm));
  QUERN_TRY(bind_output(binder, config, weights));
  for (std::string_view name : {names.rope_freqs, names.rope_factors_short, names.rope_factors_long}) {
    if (!name.empty()) binder.ignore(binder.prefixed(name));  // read into the configuration
  }
  QUERN_TRY(binder.check_all_used());
  return weights;
}

}  // namespace quern
