#include "models/decoder.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/status.h"

namespace quern {

Decoder::Decoder(ModelConfig config, DecoderWeights weights, Device& device)
    : config_(std::move(config)), weights_(std::move(weights)), device_(device) {
  for (const RopeConfig& rope : config_.ropes) ropes_.emplace_back(rope);
  rope_buffers_.resize(ropes_.size());
  const AttentionConfig& attention = config_.attention;
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    const float divisor = attention.scale_by_inverse_layer ? static_cast<float>(layer + 1) : 1.0f;
    attention_specs_.push_back({.num_heads = attention.num_heads,
                                .scale = attention.scale / divisor,
                                .softcap = attention.softcap,
                                .window = attention.window[static_cast<size_t>(layer)],
                                .sinks = weights_.layers[static_cast<size_t>(layer)].sinks,
                                .alibi = attention.alibi.empty() ? nullptr : attention.alibi.data()});
  }
}

std::vector<KvLayerSpec> Decoder::kv_layers(KvDType key, KvDType value) const {
  return kv_layer_specs(config_, key, value);
}

Status Decoder::forward(const Batch& batch, KvStorage& kv, std::span<float> logits, const HiddenTap* tap) {
  QUERN_TRY(reserve(static_cast<int32_t>(batch.ids.size()), static_cast<int32_t>(batch.logits_rows.size())));
  QUERN_CHECK(logits.size() >= batch.logits_rows.size() * static_cast<size_t>(config_.vocab_size));
  const Step step{batch, kv, tap, static_cast<int64_t>(batch.ids.size())};
  QUERN_CHECK(batch.slots.size() == batch.ids.size() * static_cast<size_t>(step.num_groups()));
  if (step.tokens == 0) return {};

  QUERN_TRY(collect_adapters(step));
  fill_positions(step);
  collect_spans(step);
  embed(step);
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) run_layer(step, layer);
  compute_logits(step, logits);
  return {};
}

void Decoder::fill_positions(const Step& step) {
  for (const BatchSequence& sequence : step.batch.sequences) {
    for (int32_t i = 0; i < sequence.span.query_count; ++i) {
      const int32_t position = sequence.span.context_begin + i;
      const auto row = static_cast<size_t>(sequence.span.query_begin + i);
      positions_[row] = position;
      for (size_t r = 0; r < ropes_.size(); ++r) {
        const size_t begin = row * static_cast<size_t>(ropes_[r].half());
        // A token's length depends on its own position and on the prompt's, never on how the prompt was cut into steps.
        ropes_[r].fill(position, std::max(sequence.prompt_tokens, position + 1), &rope_buffers_[r].host_cosine[begin],
                       &rope_buffers_[r].host_sine[begin]);
      }
    }
  }
  for (size_t r = 0; r < ropes_.size(); ++r) {
    const size_t count = static_cast<size_t>(step.tokens) * static_cast<size_t>(ropes_[r].half());
    RopeBuffers& buffers = rope_buffers_[r];
    device_.upload({buffers.host_cosine.data(), count}, buffers.cosine->data());
    device_.upload({buffers.host_sine.data(), count}, buffers.sine->data());
  }
}

void Decoder::collect_spans(const Step& step) {
  spans_.clear();
  const auto num_groups = static_cast<size_t>(step.num_groups());
  for (size_t group = 0; group < num_groups; ++group) {
    for (const BatchSequence& sequence : step.batch.sequences) {
      spans_.push_back(sequence.span);
      if (num_groups == 1) continue;
      QUERN_CHECK(sequence.tables.size() == num_groups);
      spans_.back().blocks = sequence.tables[group];
    }
  }
}

Status Decoder::collect_adapters(const Step& step) {
  adapter_rows_.clear();
  int64_t rank_max = 0;
  for (const BatchSequence& sequence : step.batch.sequences) {
    if (sequence.adapter == nullptr) continue;
    rank_max = std::max<int64_t>(rank_max, sequence.adapter->rank_max());
    const AdapterRows part{sequence.adapter, sequence.adapter_scale, sequence.span.query_begin,
                           sequence.span.query_count};
    if (!adapter_rows_.empty()) {
      AdapterRows& last = adapter_rows_.back();
      if (last.adapter == part.adapter && last.scale == part.scale && last.begin + last.count == part.begin) {
        last.count += part.count;
        continue;
      }
    }
    adapter_rows_.push_back(part);
  }
  if (adapter_rows_.empty()) return {};
  const AttentionConfig& attention = config_.attention;
  const int64_t widest = std::max({int64_t{attention.num_heads} * attention.head_dim,
                                   int64_t{attention.num_kv_heads} * std::max(attention.head_dim, attention.value_dim),
                                   int64_t{config_.hidden_size}, int64_t{config_.mlp.intermediate_size}});
  const auto fit = [this](std::unique_ptr<Buffer>& buffer, int64_t elements) -> Status {
    return buffer != nullptr && buffer->elements() >= elements ? Status{} : grow(buffer, elements);
  };
  QUERN_TRY(fit(adapter_low_, step.tokens * rank_max));
  return fit(adapter_delta_, step.tokens * widest);
}

AdapterStep Decoder::adapters_at(const Step& step, int32_t layer) const {
  if (adapter_rows_.empty()) return {};
  return {.rows = adapter_rows_,
          .low = adapter_low_->mat(step.tokens, adapter_low_->elements() / step.tokens),
          .delta = adapter_delta_->mat(step.tokens, adapter_delta_->elements() / step.tokens),
          .layer = layer};
}

void Decoder::embed(const Step& step) {
  const Mat x = rows(residual_, step.tokens, config_.hidden_size);
  device_.embed(*weights_.embed, step.batch.ids, x);
  if (config_.embedding_scale != 1.0f) device_.scale(x, config_.embedding_scale, x);
  if (weights_.positions != nullptr) {
    const Mat learned = rows(normed_, step.tokens, config_.hidden_size);
    device_.embed(*weights_.positions, {positions_.data(), static_cast<size_t>(step.tokens)}, learned);
    device_.add(x, learned, 1.0f, x);
  }
  if (step.tap != nullptr) (*step.tap)("embed", x);
}

void Decoder::run_layer(const Step& step, int32_t layer) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Mat x = rows(residual_, step.tokens, config_.hidden_size);
  const Mat normed = rows(normed_, step.tokens, config_.hidden_size);
  const bool pre = config_.block != BlockLayout::kPost;
  const bool post = config_.block == BlockLayout::kPost || config_.block == BlockLayout::kSandwich;
  const bool parallel = config_.block == BlockLayout::kParallel || config_.block == BlockLayout::kParallelShared;

  if (pre) norm(x, config_.norm, weights.attention_norm, normed);
  const Mat attended = attention(step, layer, pre ? normed : x);
  if (post) norm(attended, config_.norm, weights.attention_post_norm, attended);
  if (!parallel) device_.add(x, attended, config_.residual_scale, x);

  if (pre && config_.block != BlockLayout::kParallelShared) norm(x, config_.norm, weights.mlp_norm, normed);
  const Mat fed = feed_forward(step, layer, pre ? normed : x);
  if (post) norm(fed, config_.norm, weights.mlp_post_norm, fed);
  if (parallel) device_.add(x, attended, config_.residual_scale, x);
  device_.add(x, fed, config_.residual_scale, x);

  if (step.tap != nullptr) (*step.tap)("layer." + std::to_string(layer), x);
}

Mat Decoder::attention(const Step& step, int32_t layer, Mat x) {
  const AttentionConfig& config = config_.attention;
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Mat heads_out = rows(heads_out_, step.tokens, int64_t{config.num_heads} * config.value_dim);
  if (config.mla.kv_lora_rank > 0) {
    const MlaConfig& mla = config.mla;
    project_latent(device_, config_, weights, mla_scratch_, x);
    const Mat latent = mla_scratch_.latent->mat(step.tokens, mla.kv_lora_rank + mla.rope_dim);
    rotate(step, layer, mla_scratch_.query->mat(step.tokens, int64_t{config.num_heads} * config.head_dim),
           config.head_dim, mla.nope_dim);
    rotate(step, layer, latent.slice_cols(mla.kv_lora_rank, mla.rope_dim), mla.rope_dim, 0);
    absorb_query(device_, config_, weights, mla_scratch_, step.tokens);
    const Mat absorbed = mla_scratch_.absorbed->mat(step.tokens, config.num_heads * latent.cols);
    const Mat attended = mla_scratch_.attended->mat(step.tokens, int64_t{config.num_heads} * mla.kv_lora_rank);
    write_and_attend(step, layer, absorbed, latent, {}, attended);
    expand_values(device_, config_, weights, mla_scratch_, step.tokens, heads_out);
  } else {
    const Mat query = rows(query_, step.tokens, int64_t{config.num_heads} * config.head_dim);
    const Mat key = rows(key_, step.tokens, int64_t{config.num_kv_heads} * config.head_dim);
    const Mat value = rows(value_, step.tokens, int64_t{config.num_kv_heads} * config.value_dim);
    const Device::MatmulTarget targets[] = {{weights.query.weight, weights.query.bias, query},
                                            {weights.key.weight, weights.key.bias, key},
                                            {weights.value.weight, weights.value.bias, value}};
    device_.matmul(x, targets);
    const AdapterStep adapters = adapters_at(step, layer);
    adapters.add(device_, AdapterSite::kQuery, x, query);
    adapters.add(device_, AdapterSite::kKey, x, key);
    adapters.add(device_, AdapterSite::kValue, x, value);
    if (!config.qk_norm_after_rope) normalize_queries_and_keys(weights, query, key);
    rotate(step, layer, query, config.head_dim, 0);
    rotate(step, layer, key, config.head_dim, 0);
    if (config.qk_norm_after_rope) normalize_queries_and_keys(weights, query, key);
    write_and_attend(step, layer, query, key, value, heads_out);
  }
  const Mat out = rows(attended_, step.tokens, config_.hidden_size);
  const Device::MatmulTarget target{weights.output.weight, weights.output.bias, out};
  device_.matmul(heads_out, {&target, 1});
  adapters_at(step, layer).add(device_, AdapterSite::kOutput, heads_out, out);
  return out;
}

void Decoder::normalize_queries_and_keys(const LayerWeights& weights, Mat query, Mat key) {
  const AttentionConfig& config = config_.attention;
  if (config.qk_norm == QkNorm::kNone) return;
  const int64_t width = config.qk_norm == QkNorm::kWholeRow ? 0 : config.head_dim;
  const bool per_slice = config.qk_norm == QkNorm::kPerHeadWeights;
  norm(query, config.qk_norm_config, weights.query_norm, query, width, per_slice);
  norm(key, config.qk_norm_config, weights.key_norm, key, width, per_slice);
}

void Decoder::rotate(const Step& step, int32_t layer, Mat x, int32_t head_dim, int32_t offset) {
  const int8_t index = config_.layer_rope[static_cast<size_t>(layer)];
  if (index < 0) return;
  const auto r = static_cast<size_t>(index);
  const Mat cosine = rope_buffers_[r].cosine->mat(step.tokens, ropes_[r].half());
  const Mat sine = rope_buffers_[r].sine->mat(step.tokens, ropes_[r].half());
  device_.rope(x, {.head_dim = head_dim, .offset = offset, .style = config_.ropes[r].style}, cosine, sine);
}

void Decoder::write_and_attend(const Step& step, int32_t layer, Mat query, Mat key, Mat value, Mat out) {
  const KvPlace place = step.place(layer);
  const auto group = static_cast<size_t>(place.group);
  const size_t tokens = step.batch.ids.size(), sequences = step.batch.sequences.size();
  device_.write_kv(key, value, step.batch.slots.subspan(group * tokens, tokens), step.kv, place.index);
  device_.attention(query, step.kv, place.index, std::span(spans_).subspan(group * sequences, sequences),
                    attention_specs_[static_cast<size_t>(layer)], out);
}

Mat Decoder::feed_forward(const Step& step, int32_t layer, Mat x) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Mat out = rows(fed_, step.tokens, config_.hidden_size);
  if (config_.moe.is_moe[static_cast<size_t>(layer)] != 0) {
    run_moe(device_, config_, weights.moe, moe_scratch_, x, out);
  } else {
    run_mlp(device_, config_.mlp, config_.mlp.intermediate_size, weights.mlp, mlp_scratch_, x, out,
            adapters_at(step, layer));
  }
  return out;
}

void Decoder::compute_logits(const Step& step, std::span<float> logits) {
  Mat x = rows(residual_, step.tokens, config_.hidden_size);
  if (step.tap != nullptr) {
    norm(x, config_.norm, weights_.final_norm, rows(normed_, step.tokens, config_.hidden_size));
    (*step.tap)("final", rows(normed_, step.tokens, config_.hidden_size));
  }
  const auto count = static_cast<int64_t>(step.batch.logits_rows.size());
  if (count == 0) return;
  const Mat wanted = rows(logits_in_, count, config_.hidden_size);
  device_.gather_rows(x, step.batch.logits_rows, wanted);
  norm(wanted, config_.norm, weights_.final_norm, wanted);
  const bool in_place = device_.works_in_host_memory();
  const Mat out = in_place ? Mat{logits.data(), count, config_.vocab_size, config_.vocab_size}
                           : rows(logits_, count, config_.vocab_size);
  const Device::MatmulTarget target{weights_.output.weight, weights_.output.bias, out};
  device_.matmul(wanted, {&target, 1});
  if (config_.logits_scale != 1.0f) device_.scale(out, config_.logits_scale, out);
  if (config_.logits_softcap > 0.0f) device_.softcap(out, config_.logits_softcap, out);
  if (!in_place) device_.download(out.data, logits.first(static_cast<size_t>(count * config_.vocab_size)));
}

void Decoder::norm(Mat x, const NormConfig& config, const NormWeights& weights, Mat out, int64_t width,
                   bool weight_per_slice) {
  const Device::NormSpec spec{.weight = weights.weight,
                              .bias = weights.bias,
                              .epsilon = config.epsilon,
                              .weight_offset = config.weight_offset,
                              .width = width,
                              .weight_per_slice = weight_per_slice};
  if (config.kind == NormKind::kRms) {
    device_.rms_norm(x, spec, out);
  } else {
    device_.layer_norm(x, spec, out);
  }
}

Status Decoder::reserve(int32_t tokens_max, int32_t logits_rows_max) {
  if (logits_rows_max > logits_rows_max_) {
    QUERN_TRY(grow(logits_in_, int64_t{logits_rows_max} * config_.hidden_size));
    if (!device_.works_in_host_memory()) QUERN_TRY(grow(logits_, int64_t{logits_rows_max} * config_.vocab_size));
    logits_rows_max_ = logits_rows_max;
  }
  if (tokens_max <= tokens_max_) return {};
  const AttentionConfig& attention = config_.attention;
  const int64_t tokens = tokens_max;
  for (std::unique_ptr<Buffer>* buffer : {&residual_, &normed_, &attended_, &fed_}) {
    QUERN_TRY(grow(*buffer, tokens * config_.hidden_size));
  }
  QUERN_TRY(grow(heads_out_, tokens * attention.num_heads * attention.value_dim));
  if (attention.mla.kv_lora_rank > 0) {
    QUERN_TRY(reserve_mla(device_, config_, tokens, mla_scratch_));
  } else {
    QUERN_TRY(grow(query_, tokens * attention.num_heads * attention.head_dim));
    QUERN_TRY(grow(key_, tokens * attention.num_kv_heads * attention.head_dim));
    QUERN_TRY(grow(value_, tokens * attention.num_kv_heads * attention.value_dim));
  }
  if (std::ranges::count(config_.moe.is_moe, 0) > 0) {
    QUERN_TRY(reserve_mlp(device_, tokens, config_.mlp.intermediate_size, mlp_scratch_));
  }
  if (std::ranges::count(config_.moe.is_moe, 1) > 0) QUERN_TRY(reserve_moe(device_, config_, tokens, moe_scratch_));
  for (size_t r = 0; r < ropes_.size(); ++r) {
    const int64_t elements = tokens * ropes_[r].half();
    QUERN_TRY(grow(rope_buffers_[r].cosine, elements));
    QUERN_TRY(grow(rope_buffers_[r].sine, elements));
    rope_buffers_[r].host_cosine.resize(static_cast<size_t>(elements));
    rope_buffers_[r].host_sine.resize(static_cast<size_t>(elements));
  }
  positions_.resize(static_cast<size_t>(tokens));
  spans_.reserve(static_cast<size_t>(tokens));
  tokens_max_ = tokens_max;
  return {};
}

Status Decoder::grow(std::unique_ptr<Buffer>& buffer, int64_t elements) {
  buffer.reset();  // before the new one, so that the two need not fit together
  QUERN_ASSIGN(buffer, device_.allocate(elements));
  return {};
}

}  // namespace quern
