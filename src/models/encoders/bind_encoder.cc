#include <string>

#include "base/status.h"
#include "models/encoders/encoder_weights.h"
#include "models/tensor_binder.h"

namespace quern {
namespace {

class EncoderBinder {
 public:
  EncoderBinder(const TensorFile& file, const EncoderNames& names, EncoderConfig& config, Device& device,
                const LoadOptions& options, EncoderWeights& out)
      : file_(file),
        names_(names),
        config_(config),
        binder_(file, names.common, device, options, out.store),
        out_(out) {}

  Status bind() {
    const int64_t hidden = config_.hidden_size;
    QUERN_TRY(table(names_.common.embed, config_.vocab_size, out_.embed));
    if (config_.learned_positions > 0) QUERN_TRY(table(names_.positions, config_.learned_positions, out_.positions));
    if (config_.num_types > 0 && !names_.types.empty()) QUERN_TRY(table(names_.types, config_.num_types, out_.types));
    QUERN_TRY(norm(names_.embed_norm, 0, out_.embed_norm));
    out_.layers.resize(static_cast<size_t>(config_.num_layers));
    for (int32_t i = 0; i < config_.num_layers; ++i) QUERN_TRY(layer(i, out_.layers[static_cast<size_t>(i)]));
    if (config_.pre_norm) QUERN_TRY(norm(names_.final_norm, 0, out_.final_norm));
    if (config_.kind == ModelKind::kClassifier) QUERN_TRY(head(hidden));
    return binder_.check_all_used();
  }

 private:
  Status table(std::string_view pattern, int64_t rows, const Weight*& out) {
    Linear linear;
    QUERN_TRY(binder_.linear(pattern, 0, rows, config_.hidden_size, Presence::kAbsent, linear));
    out = linear.weight;
    return {};
  }

  Status norm(std::string_view pattern, int32_t layer, NormWeights& out) {
    const std::string base = binder_.prefixed(pattern, layer);
    const Shape shape = {config_.hidden_size};
    // Checkpoints converted from TensorFlow call the two parts gamma and beta.
    if (file_.find(base + ".gamma") != nullptr) {
      QUERN_TRY(binder_.vector(base + ".gamma", shape, Presence::kRequired, out.weight));
      return binder_.vector(base + ".beta", shape, config_.norm_bias, out.bias);
    }
    QUERN_TRY(binder_.vector(base + ".weight", shape, Presence::kRequired, out.weight));
    return binder_.vector(base + ".bias", shape, config_.norm_bias, out.bias);
  }

  Status layer(int32_t i, EncoderLayerWeights& out) {
    const int64_t hidden = config_.hidden_size;
    binder_.set_role(WeightRole::kAttention);
    QUERN_TRY(attention(i, out));
    QUERN_TRY(binder_.linear(names_.attention_output, i, hidden, hidden, config_.attention_bias, out.output));
    if (!config_.pre_norm || i > 0) QUERN_TRY(norm(names_.attention_norm, i, out.attention_norm));
    binder_.set_role(WeightRole::kFfn);
    QUERN_TRY(mlp(i, out.mlp));
    binder_.set_role(WeightRole::kKept);
    return norm(names_.mlp_norm, i, out.mlp_norm);
  }

  Status attention(int32_t i, EncoderLayerWeights& out) {
    const int64_t hidden = config_.hidden_size;
    if (config_.qkv == QkvLayout::kFused || (!names_.qkv.empty() && binder_.has(names_.qkv, i))) {
      const TensorBinder::Slice slices[] = {
          {{{0, hidden}}, &out.query}, {{{hidden, hidden}}, &out.key}, {{{2 * hidden, hidden}}, &out.value}};
      return binder_.fused_linear(names_.qkv, i, 3 * hidden, hidden, config_.attention_bias, slices);
    }
    QUERN_TRY(binder_.linear(names_.query, i, hidden, hidden, config_.attention_bias, out.query));
    QUERN_TRY(binder_.linear(names_.key, i, hidden, hidden, config_.attention_bias, out.key));
    return binder_.linear(names_.value, i, hidden, hidden, config_.attention_bias, out.value);
  }

  Status mlp(int32_t i, MlpWeights& out) {
    const int64_t hidden = config_.hidden_size, width = config_.intermediate_size;
    if (config_.fused_gate) {
      const TensorBinder::Slice slices[] = {{{{0, width}}, &out.gate}, {{{width, width}}, &out.up}};
      QUERN_TRY(binder_.fused_linear(names_.gate_up, i, 2 * width, hidden, config_.mlp_bias, slices));
    } else {
      if (config_.gated) QUERN_TRY(binder_.linear(names_.gate, i, width, hidden, config_.mlp_bias, out.gate));
      QUERN_TRY(binder_.linear(names_.up, i, width, hidden, config_.mlp_bias, out.up));
    }
    return binder_.linear(names_.down, i, hidden, width, config_.mlp_bias, out.down);
  }

  std::string head_name(std::string_view pattern) const {
    return pattern.starts_with('/') ? std::string(pattern.substr(1)) : binder_.prefixed(pattern);
  }

  Status head_linear(std::string_view pattern, int64_t rows, Presence bias, Linear& out) {
    const std::string base = head_name(pattern);
    QUERN_ASSIGN(const TensorView view, binder_.take(base + ".weight", {rows, config_.hidden_size}));
    const WeightRows part = rows_of(view, config_.hidden_size);
    // A handful of rows that decide the answer: exact whatever the precision.
    QUERN_ASSIGN(out.weight, binder_.pack({&part, 1}, 1, Precision::kExact, base));
    return binder_.vector(base + ".bias", {rows}, bias, out.bias);
  }

  Status head(int64_t hidden) {
    EncoderHead& head = config_.head;
    const std::string dense = head_name(names_.head_dense) + ".weight";
    const bool has_dense = file_.find(dense) != nullptr;
    if (head.dense == Presence::kRequired || (head.dense == Presence::kIfPresent && has_dense)) {
      QUERN_TRY(head_linear(names_.head_dense, hidden, head.dense_bias, out_.head_dense));
      if (head.norm && !names_.head_norm.empty()) {
        const std::string base = head_name(names_.head_norm);
        QUERN_TRY(binder_.vector(base + ".weight", {hidden}, Presence::kRequired, out_.head_norm.weight));
        QUERN_TRY(binder_.vector(base + ".bias", {hidden}, config_.norm_bias, out_.head_norm.bias));
      }
    }
    const std::string output = head_name(names_.head_out) + ".weight";
    const TensorView* view = file_.find(output);
    if (view == nullptr) return invalid_file(fmt::format("tensor {} is missing", output));
    if (head.num_labels == 0) {
      const int64_t rows = view->shape.size() == 2 ? view->shape[0] : 1;
      if (rows < 1 || rows > kLabelsMax) {
        return invalid_file(fmt::format("tensor {} has shape {}", output, shape_string(view->shape)));
      }
      head.num_labels = static_cast<int32_t>(rows);
    }
    return head_linear(names_.head_out, head.num_labels, Presence::kIfPresent, out_.head_out);
  }

  static constexpr int64_t kLabelsMax = 1 << 20;  // labels a classifier may have

  const TensorFile& file_;
  const EncoderNames& names_;
  EncoderConfig& config_;
  TensorBinder binder_;
  EncoderWeights& out_;
};

}  // namespace

Result<EncoderWeights> bind_encoder(const TensorFile& file, const EncoderNames& names, EncoderConfig& config,
                                    Device& device, const LoadOptions& options) {
  EncoderWeights weights;
  QUERN_TRY(EncoderBinder(file, names, config, device, options, weights).bind());
  return weights;
}

}  // namespace quern
