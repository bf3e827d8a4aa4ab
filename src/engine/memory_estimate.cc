#include "engine/memory_estimate.h"

#include <algorithm>

#include "base/status.h"
#include "engine/encoder_queue.h"
#include "engine/kv_sizing.h"
#include "engine/runner.h"
#include "kernels/cpu/memory_meter.h"
#include "models/encoders/encoder_readers.h"
#include "models/family.h"

namespace quern {
namespace {

constexpr int64_t kProgramBytes = 12 << 20;
constexpr int64_t kBytesPerWord = 223;       // of the vocabulary: the tokenizer's tables and the words of grammars
constexpr int32_t kVocabOfNumbers = 128000;  // where only numbers are known

int64_t weights_of(const MemoryCount& count) {
  return count.packed_bytes + count.in_place_bytes + count.buffer_bytes;
}

// As the queue would run them: inputs of the longest kind, together as long as a batch may be.
Result<MemoryEstimate> estimate_encoder(const ModelSource& source, const LoadOptions& options) {
  MemoryMeter meter;
  QUERN_ASSIGN(const auto model, load_encoder(source, meter, options));
  const MemoryCount loaded = meter.count();
  const int64_t longest = std::max(model->config().context_length, 1);
  const int64_t batch = EncoderQueueOptions().batch_tokens_max;
  const std::vector<int32_t> ids(static_cast<size_t>(longest), 0);
  const std::vector<EncoderInput> inputs(static_cast<size_t>(std::max<int64_t>(1, batch / longest)), {ids, {}});
  QUERN_TRY(model->forward(inputs, /*keep_hidden=*/false));
  MemoryEstimate estimate;
  estimate.weights = weights_of(loaded);
  estimate.weights_mapped = loaded.in_place_bytes;
  estimate.kv_cache = meter.count().kv_bytes;
  const int64_t tokens = static_cast<int64_t>(inputs.size()) * longest;
  const int64_t host_states = tokens * model->config().hidden_size * int64_t{sizeof(float)};
  estimate.activations = meter.count().buffer_bytes - loaded.buffer_bytes + host_states;
  estimate.overhead = overhead_bytes(model->config().vocab_size);
  estimate.max_model_len = static_cast<int32_t>(longest);
  return estimate;
}

int64_t left(int64_t taken) {
  return std::max<int64_t>(0, available_memory_bytes() - taken);
}

// Keys and values of so many layers that are all alike.
std::vector<KvLayerSpec> kv_layers_of(const ModelNumbers& numbers, KvDType key, KvDType value) {
  KvLayerSpec layer{.num_kv_heads = numbers.kv_heads,
                    .key_dim = numbers.head_dim,
                    .value_dim = numbers.head_dim,
                    .key_dtype = key,
                    .value_dtype = value};
  if (numbers.latent_width > 0) {
    layer.num_kv_heads = 1;
    layer.key_dim = layer.value_dim = numbers.latent_width;
    layer.value_in_key = true;
  }
  std::vector<KvLayerSpec> layers(static_cast<size_t>(numbers.layers), layer);
  keep_latent_in_floats(layers);
  return layers;
}

}  // namespace

int64_t overhead_bytes(int64_t vocab_size) {
  return kProgramBytes + vocab_size * kBytesPerWord;
}

Result<MemoryEstimate> estimate_memory(const ModelSource& source, const EngineOptions& options) {
  QUERN_ASSIGN(const RunnerOptions runner_settings, runner_options(options));
  QUERN_ASSIGN(const QuantScheme scheme, parse_quant_scheme(options.quantization));
  const LoadOptions load_options(runner_settings.precision, scheme);
  if (is_encoding_source(source)) return estimate_encoder(source, load_options);
  auto device = std::make_unique<MemoryMeter>();
  const MemoryMeter& meter = *device;
  QUERN_ASSIGN(auto model, load_decoder(source, *device, load_options));
  const MemoryCount loaded = meter.count();
  MemoryEstimate estimate;
  estimate.weights = weights_of(loaded);
  estimate.weights_mapped = loaded.in_place_bytes;
  estimate.overhead = overhead_bytes(model->config().vocab_size);

  QUERN_ASSIGN(const auto runner, Runner::create(std::move(device), std::move(model), runner_settings));
  const int32_t rows = std::min(runner_settings.max_logits_rows, kReservedLogitsRows);
  const int64_t host_logits = int64_t{rows} * runner->config().vocab_size * int64_t{sizeof(float)};
  estimate.activations = meter.count().buffer_bytes - loaded.buffer_bytes + host_logits;
  KvLayout layout = runner->window_kv_groups();
  const int64_t taken = estimate.weights - estimate.weights_mapped + estimate.activations + estimate.overhead;
  const KvNeeds needs = kv_needs(runner->config(), layout, left(taken));
  QUERN_ASSIGN(const KvSize size, size_kv(options, needs));
  estimate.max_model_len = size.max_model_len;
  estimate.kv_bytes_per_token = needs.block_bytes * needs.groups.count() / kKvBlockSize;
  QUERN_TRY(runner->allocate_kv(size.num_blocks, std::move(layout)));
  estimate.kv_cache = meter.count().kv_bytes;
  return estimate;
}

Result<MemoryEstimate> estimate_memory(const std::filesystem::path& path, const EngineOptions& options) {
  QUERN_ASSIGN(const auto source, open_model_source(path));
  return estimate_memory(*source, options);
}

Result<MemoryEstimate> estimate_memory(const ModelNumbers& numbers, const EngineOptions& options) {
  QUERN_ASSIGN(const RunnerOptions runner, runner_options(options));
  MemoryEstimate estimate{.weights = numbers.weight_bytes, .overhead = overhead_bytes(kVocabOfNumbers)};
  estimate.max_model_len = numbers.context_length;
  // Rows as wide as the stream, and a feed-forward part of four times that.
  constexpr int64_t kEncoderRows = 7 + 4, kDecoderRows = 4 + 2 * 4;
  const int64_t hidden = numbers.hidden * int64_t{sizeof(float)};
  if (!numbers.has_cache) {
    estimate.activations = kEncoderRows * hidden * EncoderQueueOptions().batch_tokens_max;
    return estimate;
  }
  const int64_t heads = int64_t{2} * numbers.heads * numbers.head_dim * int64_t{sizeof(float)};
  estimate.activations = (kDecoderRows * hidden + heads) * runner.max_num_batched_tokens;
  const KvDType automatic = runner.precision == Precision::kExact ? KvDType::kF32 : MemoryMeter().fast_kv_dtype();
  const KvDType key = runner.kv_dtype.value_or(automatic);
  const KvLayout layout = one_kv_group(kv_layers_of(numbers, key, runner.kv_value_dtype.value_or(key)), {});
  ModelConfig config;
  config.context_length = numbers.context_length;
  const KvNeeds needs = kv_needs(config, layout, left(estimate.total()));
  QUERN_ASSIGN(const KvSize size, size_kv(options, needs));
  estimate.max_model_len = size.max_model_len;
  estimate.kv_bytes_per_token = needs.block_bytes / kKvBlockSize;
  estimate.kv_cache = needs.block_bytes * size.num_blocks;
  return estimate;
}

bool runs_family(std::string_view family) {
  return find_family(family) != nullptr || find_hf_family(family) != nullptr ||
         find_hf_wrapper_family(family) != nullptr || find_gguf_family(family) != nullptr ||
         find_encoder_family(family) != nullptr;
}

}  // namespace quern
