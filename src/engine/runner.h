// A model on a device with its KV storage: the one place that runs batches. The engine drives it step by step; `quern
// logits`, `perplexity` and `bench` drive it through SequenceRunner below. Owns source, device, weights and KV. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/kv_block_access.h"
#include "kernels/op_profile.h"
#include "models/loader.h"
#include "models/model.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern {

struct RunnerOptions {
  std::string device = "auto";  // auto | cpu | reference
  Precision precision = Precision::kFast;
  std::string quantization = "none";      // as EngineOptions has it
  std::optional<KvDType> kv_dtype;        // absent: the device's fastest (i16, f16), or f32 when precision is exact
  std::optional<KvDType> kv_value_dtype;  // absent: as kv_dtype
  int32_t num_threads = 0;                // 0: physical cores this process may use
  int32_t max_num_batched_tokens = 512;   // rows of the largest batch
  int32_t max_logits_rows = 16;           // rows of a batch that may want logits
  OpProfile* profile = nullptr;           // measures every operation; outlives the runner
  std::function<void(const std::string&)>
      on_note;  // told one line when a quantization changes less than asked; may be null
};

// "fast" | "exact"; "auto" | "f32" | "f16" | "bf16" | "q8_0" | "q4_0" (auto: nullopt). kInvalidArgument names the
// option and the value.
Result<Precision> parse_precision(std::string_view text);
Result<std::optional<KvDType>> parse_kv_dtype(std::string_view text, std::string_view option = "kv_cache_dtype");
// The runner's share of the engine's options; checks their ranges.
Result<RunnerOptions> runner_options(const EngineOptions& options);

// Tells on_note, where there is one, when a quantization changed less than was asked for.
void tell_of_quantization(const std::string& quantization, const QuantReport& report,
                          const std::function<void(const std::string&)>& on_note);

class Runner {
 public:
  // Binds and packs the weights. KV storage comes with allocate_kv().
  static Result<std::unique_ptr<Runner>> create(std::unique_ptr<ModelSource> source, const RunnerOptions& options);
  // With a device and a model made elsewhere (tests).
  static Result<std::unique_ptr<Runner>> create(std::unique_ptr<Device> device, std::unique_ptr<DecoderModel> model,
                                                const RunnerOptions& options);

  const ModelConfig& config() const { return model_->config(); }
  const RunnerOptions& options() const { return options_; }
  const ModelSource* source() const { return source_.get(); }  // null in tests
  Device& device() { return *device_; }
  DecoderModel& model() { return *model_; }

  // How storage may be laid out: a block for all layers, or for one of several groups of them.
  KvLayout one_kv_group() const;
  KvLayout window_kv_groups() const;
  // (Re)allocates; contents are lost. kResourceExhausted when there is not enough memory.
  Status allocate_kv(int32_t num_blocks, KvLayout layout);
  const KvLayout& kv_layout() const { return kv_layout_; }  // of the present storage
  int32_t num_kv_blocks() const { return kv_ ? kv_->num_blocks : 0; }
  void copy_kv_block(int32_t source, int32_t target);
  KvBlockAccess* kv_blocks() { return kv_ ? kv_block_access(*kv_) : nullptr; }  // null: the device gives no access

  // One forward over the present storage, whose layout it gives to the batch. At most max_num_batched_tokens ids and
  // max_logits_rows logits rows (checked). The result is
  // [batch.logits_rows, vocab_size] and valid until the next run(); the caller may write to it (samplers do).
  Result<std::span<float>> run(const Batch& batch, const HiddenTap* tap = nullptr);

 private:
  Runner(std::unique_ptr<ModelSource> source, std::unique_ptr<Device> device, std::unique_ptr<DecoderModel> model,
         const RunnerOptions& options);
  Status prepare();
  std::vector<KvLayerSpec> kv_layers() const;

  RunnerOptions options_;
  std::unique_ptr<ModelSource> source_;  // first: weights may be read in place, so it goes last
  std::unique_ptr<Device> device_;
  std::unique_ptr<DecoderModel> model_;
  std::unique_ptr<KvStorage> kv_;
  KvLayout kv_layout_;
  std::vector<float> logits_;  // [max_logits_rows, vocab_size]
};

}  // namespace quern
