#include "models/encoders/decoder_embedder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "models/encoders/pooling.h"

namespace quern {
namespace {

constexpr int32_t kStepTokensMax = 512;

}  // namespace

DecoderEmbedder::DecoderEmbedder(std::unique_ptr<DecoderModel> decoder, Device& device, const Options& options)
    : decoder_(std::move(decoder)), device_(device), options_(options), config_(decoder_->config()) {
  config_.kind = ModelKind::kEncoder;
}

Status DecoderEmbedder::check(std::span<const EncoderInput> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const EncoderInput& input = inputs[i];
    if (input.ids.empty()) return invalid_argument(fmt::format("input {}: has no tokens", i));
    if (std::ssize(input.ids) > config_.context_length) {
      return invalid_argument(
          fmt::format("input {}: {} tokens, the model takes at most {}", i, input.ids.size(), config_.context_length));
    }
    for (int32_t id : input.ids) {
      if (id >= 0 && id < config_.vocab_size) continue;
      return invalid_argument(
          fmt::format("input {}: token id {} is outside the vocabulary of {}", i, id, config_.vocab_size));
    }
    if (std::ranges::any_of(input.type_ids, [](int32_t type) { return type != 0; })) {
      return invalid_argument(fmt::format("input {}: the model has no token types", i));
    }
  }
  return {};
}

Status DecoderEmbedder::ensure_kv(int32_t tokens) {
  const int32_t blocks = (tokens + kKvBlockSize - 1) / kKvBlockSize;
  if (kv_ && kv_->num_blocks >= blocks) return {};
  kv_.reset();
  const std::vector<KvLayerSpec> layers = decoder_->kv_layers(options_.kv_dtype, options_.kv_dtype);
  QUERN_ASSIGN(kv_, device_.allocate_kv(layers, blocks));
  blocks_.resize(static_cast<size_t>(blocks));
  std::iota(blocks_.begin(), blocks_.end(), 0);
  slots_.resize(static_cast<size_t>(blocks) * kKvBlockSize);
  std::iota(slots_.begin(), slots_.end(), 0);
  return {};
}

Result<std::vector<float>> DecoderEmbedder::run(std::span<const int32_t> ids, const HiddenTap* shown) {
  const auto total = static_cast<int32_t>(ids.size());
  QUERN_TRY(ensure_kv(total));
  std::vector<float> states(ids.size() * static_cast<size_t>(config_.hidden_size));
  for (int32_t begin = 0; begin < total; begin += kStepTokensMax) {
    const int32_t count = std::min(kStepTokensMax, total - begin);
    const BatchSequence sequence = {
        .span = {.query_begin = 0, .query_count = count, .context_begin = begin, .blocks = blocks_},
        .prompt_tokens = total};
    const auto first = static_cast<size_t>(begin), size = static_cast<size_t>(count);
    const Batch batch = {.ids = ids.subspan(first, size),
                         .slots = std::span<const int32_t>(slots_).subspan(first, size),
                         .sequences = {&sequence, 1},
                         .logits_rows = {}};
    const auto width = static_cast<size_t>(config_.hidden_size);
    const HiddenTap tap = [&](const std::string& name, Mat rows) {
      if (shown != nullptr && name != "final") (*shown)(name, rows);
      if (name == "final") device_.download(rows.data, std::span(states).subspan(first * width, size * width));
    };
    QUERN_TRY(decoder_->forward(batch, *kv_, {}, &tap));
  }
  return states;
}

Result<std::vector<EncoderModel::Output>> DecoderEmbedder::forward(std::span<const EncoderInput> inputs,
                                                                   bool keep_hidden, const HiddenTap* tap) {
  QUERN_TRY(check(inputs));
  std::vector<Output> outputs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    QUERN_ASSIGN(std::vector<float> states, run(inputs[i].ids, tap));
    outputs[i].embedding = pool(states, config_.hidden_size, options_.pooling);
    if (options_.normalize) normalize_l2(outputs[i].embedding);
    if (keep_hidden) outputs[i].last_hidden_state = std::move(states);
  }
  return outputs;
}

}  // namespace quern
