#include "models/encoders/encoder_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "models/encoders/pooling.h"

namespace quern {
namespace {

// Rows of one pass: enough to fill the matrix products, bounded so that scratch does not grow with the request.
constexpr int64_t kChunkTokensMax = 4096;

size_t tokens_of(std::span<const EncoderInput> inputs) {
  size_t tokens = 0;
  for (const EncoderInput& input : inputs) tokens += input.ids.size();
  return tokens;
}

// Checked before a head whose tanh would make a number of NaN again; JSON could not even write it.
Status check_finite(std::span<const float> values) {
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return {};
  return make_error(ErrorCode::kInternal, "the output is not finite: weights hold NaN, infinity or too large numbers");
}

}  // namespace

EncoderForward::EncoderForward(EncoderConfig config, EncoderWeights weights, Device& device)
    : config_(std::move(config)),
      model_config_(to_model_config(config_)),
      weights_(std::move(weights)),
      device_(device) {
  for (const RopeConfig& rope : config_.ropes) ropes_.emplace_back(rope);
  cosine_.resize(ropes_.size());
  sine_.resize(ropes_.size());
}

Status EncoderForward::check(std::span<const EncoderInput> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const EncoderInput& input = inputs[i];
    if (input.ids.empty()) return invalid_argument(fmt::format("input {}: has no tokens", i));
    if (std::ssize(input.ids) > config_.tokens_max) {
      return invalid_argument(
          fmt::format("input {}: {} tokens, the model takes at most {}", i, input.ids.size(), config_.tokens_max));
    }
    for (int32_t id : input.ids) {
      if (id < 0 || id >= config_.vocab_size) {
        return invalid_argument(
            fmt::format("input {}: token id {} is outside the vocabulary of {}", i, id, config_.vocab_size));
      }
    }
    if (input.type_ids.empty()) continue;
    if (input.type_ids.size() != input.ids.size()) {
      return invalid_argument(
          fmt::format("input {}: {} type ids for {} tokens", i, input.type_ids.size(), input.ids.size()));
    }
    for (int32_t type : input.type_ids) {
      if (type < 0 || type >= std::max(config_.num_types, 1)) {
        return invalid_argument(
            fmt::format("input {}: type id {} is not below {}", i, type, std::max(config_.num_types, 1)));
      }
    }
  }
  return {};
}

Result<std::vector<EncoderModel::Output>> EncoderForward::forward(std::span<const EncoderInput> inputs,
                                                                  bool keep_hidden, const HiddenTap* tap) {
  QUERN_TRY(check(inputs));
  std::vector<Output> outputs(inputs.size());
  size_t begin = 0;
  while (begin < inputs.size()) {
    size_t end = begin;
    int64_t tokens = 0;
    do {
      tokens += std::ssize(inputs[end].ids);
      ++end;
    } while (end < inputs.size() && tokens + std::ssize(inputs[end].ids) <= kChunkTokensMax);
    QUERN_TRY(run_chunk(inputs.subspan(begin, end - begin), keep_hidden, tap,
                        std::span(outputs).subspan(begin, end - begin)));
    begin = end;
  }
  return outputs;
}

Status EncoderForward::reserve(int64_t tokens) {
  if (tokens <= tokens_reserved_) return {};
  const int64_t hidden = config_.hidden_size;
  for (std::unique_ptr<Buffer>* buffer : {&x_, &normed_, &query_, &key_, &value_, &attended_}) {
    QUERN_ASSIGN(*buffer, device_.allocate(tokens * hidden));
  }
  QUERN_ASSIGN(up_, device_.allocate(tokens * config_.intermediate_size));
  if (config_.gated) {
    QUERN_ASSIGN(gate_, device_.allocate(tokens * config_.intermediate_size));
  }
  for (size_t i = 0; i < ropes_.size(); ++i) {
    QUERN_ASSIGN(cosine_[i], device_.allocate(tokens * ropes_[i].half()));
    QUERN_ASSIGN(sine_[i], device_.allocate(tokens * ropes_[i].half()));
  }
  tokens_reserved_ = tokens;
  return {};
}

Mat EncoderForward::rows(const std::unique_ptr<Buffer>& buffer, int64_t tokens, int64_t cols) const {
  return buffer->mat(tokens, cols);
}

Status EncoderForward::run_chunk(std::span<const EncoderInput> inputs, bool keep_hidden, const HiddenTap* tap,
                                 std::span<Output> outputs) {
  const auto tokens = static_cast<int64_t>(tokens_of(inputs));
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  QUERN_TRY(reserve(tokens));
  std::vector<SequenceSpan> sequences;
  int32_t row = 0;
  for (const EncoderInput& input : inputs) {
    const auto count = static_cast<int32_t>(input.ids.size());
    sequences.push_back({.query_begin = row, .query_count = count});
    row += count;
  }
  embed(inputs, tokens);
  QUERN_TRY(fill_rotations(inputs, tokens));
  const Mat x = rows(x_, tokens, config_.hidden_size);
  if (tap != nullptr) (*tap)("embed", x);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    run_layer(i, tokens, sequences);
    if (tap != nullptr) (*tap)("layer." + std::to_string(i), x);
  }
  if (config_.pre_norm) layer_norm(x, weights_.final_norm, x);

  std::vector<float> states(static_cast<size_t>(tokens) * hidden);
  device_.download(x.data, states);
  const bool classifier = config_.kind == ModelKind::kClassifier;
  std::vector<float> all_pooled;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto begin = static_cast<size_t>(sequences[i].query_begin) * hidden;
    const auto own = std::span<const float>(states).subspan(begin, inputs[i].ids.size() * hidden);
    if (keep_hidden) outputs[i].last_hidden_state.assign(own.begin(), own.end());
    std::vector<float> pooled = pool(own, config_.hidden_size, classifier ? config_.head.pooling : config_.pooling);
    QUERN_TRY(check_finite(pooled));
    if (classifier) {
      all_pooled.insert(all_pooled.end(), pooled.begin(), pooled.end());
    } else {
      if (config_.normalize) normalize_l2(pooled);
      outputs[i].embedding = std::move(pooled);
    }
  }
  if (!classifier) return {};
  QUERN_ASSIGN(const std::vector<float> scores, classify(all_pooled, std::ssize(inputs)));
  QUERN_TRY(check_finite(scores));
  const auto labels = static_cast<size_t>(config_.head.num_labels);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto own = std::span<const float>(scores).subspan(i * labels, labels);
    outputs[i].scores.assign(own.begin(), own.end());
  }
  return {};
}

void EncoderForward::embed(std::span<const EncoderInput> inputs, int64_t tokens) {
  std::vector<int32_t> ids, positions, types;
  for (const EncoderInput& input : inputs) {
    ids.insert(ids.end(), input.ids.begin(), input.ids.end());
    for (size_t i = 0; i < input.ids.size(); ++i) {
      positions.push_back(static_cast<int32_t>(i) + config_.position_offset);
      types.push_back(input.type_ids.empty() ? 0 : input.type_ids[i]);
    }
  }
  const Mat x = rows(x_, tokens, config_.hidden_size);
  const Mat part = rows(normed_, tokens, config_.hidden_size);
  device_.embed(*weights_.embed, ids, x);
  if (weights_.types != nullptr) {
    device_.embed(*weights_.types, types, part);
    device_.add(x, part, 1.0f, x);
  }
  if (weights_.positions != nullptr) {
    device_.embed(*weights_.positions, positions, part);
    device_.add(x, part, 1.0f, x);
  }
  layer_norm(x, weights_.embed_norm, x);
}

Status EncoderForward::fill_rotations(std::span<const EncoderInput> inputs, int64_t tokens) {
  for (size_t r = 0; r < ropes_.size(); ++r) {
    const auto half = static_cast<size_t>(ropes_[r].half());
    std::vector<float> cosine(static_cast<size_t>(tokens) * half), sine(cosine.size());
    size_t at = 0;
    for (const EncoderInput& input : inputs) {
      const auto length = static_cast<int32_t>(input.ids.size());
      for (int32_t position = 0; position < length; ++position, at += half) {
        ropes_[r].fill(position, length, &cosine[at], &sine[at]);
      }
    }
    device_.upload(cosine, cosine_[r]->data());
    device_.upload(sine, sine_[r]->data());
  }
  return {};
}

void EncoderForward::run_layer(size_t layer, int64_t tokens, std::span<const SequenceSpan> sequences) {
  const EncoderLayerWeights& weights = weights_.layers[layer];
  const Mat x = rows(x_, tokens, config_.hidden_size);
  const Mat normed = rows(normed_, tokens, config_.hidden_size);
  const Mat branch = rows(attended_, tokens, config_.hidden_size);
  if (config_.pre_norm) {
    const bool identity = weights.attention_norm.weight == nullptr;
    if (!identity) layer_norm(x, weights.attention_norm, normed);
    attend(layer, identity ? x : normed, sequences, branch);
    device_.add(x, branch, 1.0f, x);
    layer_norm(x, weights.mlp_norm, normed);
    feed_forward(weights, normed, branch);
    device_.add(x, branch, 1.0f, x);
    return;
  }
  attend(layer, x, sequences, branch);
  device_.add(x, branch, 1.0f, x);
  layer_norm(x, weights.attention_norm, x);
  feed_forward(weights, x, branch);
  device_.add(x, branch, 1.0f, x);
  layer_norm(x, weights.mlp_norm, x);
}

void EncoderForward::attend(size_t layer, Mat x, std::span<const SequenceSpan> sequences, Mat out) {
  const EncoderLayerWeights& weights = weights_.layers[layer];
  const Mat query = rows(query_, x.rows, config_.hidden_size);
  const Mat key = rows(key_, x.rows, config_.hidden_size);
  const Mat value = rows(value_, x.rows, config_.hidden_size);
  const Device::MatmulTarget targets[] = {{weights.query.weight, weights.query.bias, query},
                                          {weights.key.weight, weights.key.bias, key},
                                          {weights.value.weight, weights.value.bias, value}};
  device_.matmul(x, targets);
  if (const int8_t rope = config_.layer_rope[layer]; rope >= 0) {
    const auto r = static_cast<size_t>(rope);
    const Device::RopeSpec spec = {.head_dim = config_.head_dim(), .style = config_.ropes[r].style};
    const Mat cosine = rows(cosine_[r], x.rows, ropes_[r].half());
    const Mat sine = rows(sine_[r], x.rows, ropes_[r].half());
    device_.rope(query, spec, cosine, sine);
    device_.rope(key, spec, cosine, sine);
  }
  const AttentionSpec spec = {.num_heads = config_.num_heads,
                              .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim())),
                              .window = config_.window[layer]};
  const Mat attended = rows(normed_, x.rows, config_.hidden_size);
  device_.attention_full(query, key, value, config_.num_heads, sequences, spec, attended);
  const Device::MatmulTarget output = {weights.output.weight, weights.output.bias, out};
  device_.matmul(attended, {&output, 1});
}

void EncoderForward::feed_forward(const EncoderLayerWeights& weights, Mat x, Mat out) {
  const Mat up = rows(up_, x.rows, config_.intermediate_size);
  if (config_.gated) {
    const Mat gate = rows(gate_, x.rows, config_.intermediate_size);
    const Device::MatmulTarget targets[] = {{weights.mlp.gate.weight, weights.mlp.gate.bias, gate},
                                            {weights.mlp.up.weight, weights.mlp.up.bias, up}};
    device_.matmul(x, targets);
    device_.activate_multiply(gate, up, config_.activation, up);
  } else {
    const Device::MatmulTarget target = {weights.mlp.up.weight, weights.mlp.up.bias, up};
    device_.matmul(x, {&target, 1});
    device_.activate(up, config_.activation, up);
  }
  const Device::MatmulTarget down = {weights.mlp.down.weight, weights.mlp.down.bias, out};
  device_.matmul(up, {&down, 1});
}

void EncoderForward::layer_norm(Mat x, const NormWeights& weights, Mat out) {
  device_.layer_norm(x, {.weight = weights.weight, .bias = weights.bias, .epsilon = config_.epsilon}, out);
}

Result<std::vector<float>> EncoderForward::classify(std::span<const float> pooled, int64_t count) {
  const int64_t hidden = config_.hidden_size;
  const int64_t labels = config_.head.num_labels;
  QUERN_ASSIGN(const auto buffers, device_.allocate(count * (2 * hidden + labels)));
  Mat x = {buffers->data(), count, hidden, hidden};
  device_.upload(pooled, x.data);
  if (weights_.head_dense.weight != nullptr) {
    const Mat dense = {x.data + count * hidden, count, hidden, hidden};
    const Device::MatmulTarget target = {weights_.head_dense.weight, weights_.head_dense.bias, dense};
    device_.matmul(x, {&target, 1});
    device_.activate(dense, config_.head.activation, dense);
    if (weights_.head_norm.weight != nullptr) layer_norm(dense, weights_.head_norm, dense);
    x = dense;
  }
  const Mat out = {buffers->data() + 2 * count * hidden, count, labels, labels};
  const Device::MatmulTarget target = {weights_.head_out.weight, weights_.head_out.bias, out};
  device_.matmul(x, {&target, 1});
  std::vector<float> scores(static_cast<size_t>(count * labels));
  device_.download(out.data, scores);
  return scores;
}

}  // namespace quern
