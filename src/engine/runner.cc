#include "engine/runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "engine/device_choice.h"
#include "engine/kv_sizing.h"

namespace quern {

namespace {

// A step of this many tokens is beyond any use and bounds the scratch a typing error can ask for.
constexpr int32_t kBatchedTokensMax = 1 << 16;
constexpr int32_t kNumSeqsMax = 4096;
constexpr int32_t kThreadsMax = 1024;
constexpr int32_t kSpareLogitsRows = 64;

Status check_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("{}: {} is not between {} and {}", name, value, low, high));
}

}  // namespace

Result<Precision> parse_precision(std::string_view text) {
  if (text == "fast") return Precision::kFast;
  if (text == "exact") return Precision::kExact;
  return invalid_argument(fmt::format("precision: '{}' is not one of fast, exact", text));
}

Result<std::optional<KvDType>> parse_kv_dtype(std::string_view text, std::string_view option) {
  if (text == "auto") return std::optional<KvDType>{};
  if (text == "f32") return KvDType::kF32;
  if (text == "f16") return KvDType::kF16;
  if (text == "bf16") return KvDType::kBF16;
  if (text == "q8_0") return KvDType::kQ8_0;
  if (text == "q4_0") return KvDType::kQ4_0;
  if (text == "i16") return KvDType::kI16;
  return invalid_argument(fmt::format("{}: '{}' is not one of auto, f32, f16, bf16, i16, q8_0, q4_0", option, text));
}

Result<RunnerOptions> runner_options(const EngineOptions& options) {
  RunnerOptions result;
  QUERN_TRY(check_device_name(options.device));
  result.device = options.device;
  QUERN_ASSIGN(result.precision, parse_precision(options.precision));
  QUERN_TRY(parse_quant_scheme(options.quantization));
  result.quantization = options.quantization;
  result.on_note = options.on_note;
  QUERN_ASSIGN(result.kv_dtype, parse_kv_dtype(options.kv_cache_dtype));
  if (!options.kv_cache_dtype_v.empty()) {
    QUERN_ASSIGN(result.kv_value_dtype, parse_kv_dtype(options.kv_cache_dtype_v, "kv_cache_dtype_v"));
  }
  QUERN_TRY(check_range("num_threads", options.num_threads, 0, kThreadsMax));
  QUERN_TRY(check_range("max_num_batched_tokens", options.max_num_batched_tokens, 1, kBatchedTokensMax));
  QUERN_TRY(check_range("max_num_seqs", options.max_num_seqs, 1, kNumSeqsMax));
  result.num_threads = options.num_threads;
  result.max_num_batched_tokens = options.max_num_batched_tokens;
  // Beside one for each sequence: guesses that are checked, prompts that are scored.
  result.max_logits_rows = std::min(options.max_num_seqs + kSpareLogitsRows, options.max_num_batched_tokens);
  return result;
}

Runner::Runner(std::unique_ptr<ModelSource> source, std::unique_ptr<Device> device, std::unique_ptr<DecoderModel> model,
               const RunnerOptions& options)
    : options_(options), source_(std::move(source)), device_(std::move(device)), model_(std::move(model)) {}

Result<std::unique_ptr<Runner>> Runner::create(std::unique_ptr<Device> device, std::unique_ptr<DecoderModel> model,
                                               const RunnerOptions& options) {
  std::unique_ptr<Runner> runner(new Runner(nullptr, std::move(device), std::move(model), options));
  QUERN_TRY(runner->prepare());
  return runner;
}

Status Runner::prepare() {
  const int32_t rows = std::min(options_.max_logits_rows, kReservedLogitsRows);
  QUERN_TRY(model_->reserve(options_.max_num_batched_tokens, rows));
  logits_.resize(static_cast<size_t>(rows) * config().vocab_size);
  return {};
}

std::vector<KvLayerSpec> Runner::kv_layers() const {
  const KvDType automatic = options_.precision == Precision::kExact ? KvDType::kF32 : device_->fast_kv_dtype();
  const KvDType dtype = options_.kv_dtype.value_or(automatic);
  std::vector<KvLayerSpec> layers = model_->kv_layers(dtype, options_.kv_value_dtype.value_or(dtype));
  keep_latent_in_floats(layers);
  return layers;
}

KvLayout Runner::one_kv_group() const {
  return quern::one_kv_group(kv_layers(), config().attention.window);
}

KvLayout Runner::window_kv_groups() const {
  return quern::window_kv_groups(kv_layers(), config().attention.window, config().context_length);
}

Status Runner::allocate_kv(int32_t num_blocks, KvLayout layout) {
  QUERN_CHECK(num_blocks > 0);
  kv_.reset();
  kv_layout_ = std::move(layout);
  QUERN_ASSIGN(kv_, device_->allocate_kv(kv_layout_.layers, num_blocks));
  return {};
}

void Runner::copy_kv_block(int32_t source, int32_t target) {
  device_->copy_kv_block(*kv_, source, target);
}

Result<std::span<float>> Runner::run(const Batch& batch, const HiddenTap* tap) {
  QUERN_CHECK(kv_ != nullptr);
  QUERN_CHECK(!batch.ids.empty());
  QUERN_CHECK(batch.ids.size() <= static_cast<size_t>(options_.max_num_batched_tokens));
  QUERN_CHECK(batch.logits_rows.size() <= static_cast<size_t>(options_.max_logits_rows));
  logits_.resize(std::max(logits_.size(), batch.logits_rows.size() * config().vocab_size));
  std::span<float> logits(logits_.data(), batch.logits_rows.size() * config().vocab_size);
  Batch placed = batch;
  placed.layout = &kv_layout_;
  QUERN_TRY(model_->forward(placed, *kv_, logits, tap));
  return logits;
}

}  // namespace quern
