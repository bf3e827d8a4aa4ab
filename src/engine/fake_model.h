// For tests: a decoder whose "keys and values" are the token ids themselves, kept at the slots the engine names. Its
// logits are a function of the context it finds there, so a wrong block, a stale slot or a missed copy shows as other
// tokens.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "engine/runner.h"
#include "kernels/kv_block_access.h"

namespace quern::fake {

struct Kv final : KvStorage, KvBlockAccess {
  std::vector<int32_t> tokens;  // [num_blocks, layers of the storage, 16], -1 where nothing was written

  int32_t& at(int32_t slot, int32_t layer) {
    const size_t row = static_cast<size_t>(slot / kKvBlockSize) * layers.size() + static_cast<size_t>(layer);
    return tokens[row * kKvBlockSize + static_cast<size_t>(slot % kKvBlockSize)];
  }
  size_t block_bytes() const override { return layers.size() * kKvBlockSize * sizeof(int32_t); }
  void read_block(int32_t block, std::span<std::byte> target) const override {
    std::memcpy(target.data(), reinterpret_cast<const std::byte*>(tokens.data()) + block * block_bytes(),
                block_bytes());
  }
  void write_block(int32_t block, std::span<const std::byte> source) override {
    std::memcpy(reinterpret_cast<std::byte*>(tokens.data()) + block * block_bytes(), source.data(), block_bytes());
  }
};

class FakeDevice final : public Device {
 public:
  std::string_view name() const override { return "fake"; }
  Result<std::unique_ptr<KvStorage>> allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) override {
    auto kv = std::make_unique<Kv>();
    kv->layers.assign(layers.begin(), layers.end());
    kv->num_blocks = num_blocks;
    kv->tokens.assign(static_cast<size_t>(num_blocks) * layers.size() * kKvBlockSize, -1);
    return kv;
  }
  void copy_kv_block(KvStorage& storage, int32_t source, int32_t target) override {
    auto& kv = static_cast<Kv&>(storage);
    std::vector<std::byte> bytes(kv.block_bytes());
    kv.read_block(source, bytes);
    kv.write_block(target, bytes);
    ++copies;
  }
  int copies = 0;

  Result<std::unique_ptr<Buffer>> allocate(int64_t) override { return unsupported("fake"); }
  void upload(std::span<const float>, float*) override { no(); }
  void download(const float*, std::span<float>) override { no(); }
  Result<std::unique_ptr<Weight>> pack(std::span<const WeightRows>, int64_t, const WeightForm&) override {
    return unsupported("fake");
  }
  void embed(const Weight&, std::span<const int32_t>, Mat) override { no(); }
  void matmul(Mat, std::span<const MatmulTarget>) override { no(); }
  void matmul_experts(Mat, const Weight&, const float*, std::span<const ExpertRows>, Mat) override { no(); }
  void rms_norm(Mat, const NormSpec&, Mat) override { no(); }
  void layer_norm(Mat, const NormSpec&, Mat) override { no(); }
  void rope(Mat, const RopeSpec&, Mat, Mat) override { no(); }
  void write_kv(Mat, Mat, std::span<const int32_t>, KvStorage&, int32_t) override { no(); }
  void attention(Mat, const KvStorage&, int32_t, std::span<const SequenceSpan>, const AttentionSpec&, Mat) override {
    no();
  }
  void attention_full(Mat, Mat, Mat, int32_t, std::span<const SequenceSpan>, const AttentionSpec&, Mat) override {
    no();
  }
  void activate(Mat, Activation, Mat) override { no(); }
  void activate_multiply(Mat, Mat, Activation, Mat) override { no(); }
  void swiglu_clamped(Mat, Mat, float, Mat) override { no(); }
  void add(Mat, Mat, float, Mat) override { no(); }
  void add_row(Mat, const float*, Mat) override { no(); }
  void scale(Mat, float, Mat) override { no(); }
  void scale_rows(Mat, std::span<const float>, Mat) override { no(); }
  void softcap(Mat, float, Mat) override { no(); }
  void gather_rows(Mat, std::span<const int32_t>, Mat) override { no(); }
  void copy(Mat, Mat) override { no(); }
  void route(Mat, const RouterSpec&, std::span<int32_t>, std::span<float>) override { no(); }
  void combine_experts(Mat, std::span<const float>, int32_t, Mat) override { no(); }

 private:
  [[noreturn]] static void no() { check_failed("the fake device computes nothing", __FILE__, __LINE__); }
};

// The token that greedy decoding is to choose after `context`; -1: whatever the hash of the context prefers.
using Script = std::function<int32_t(std::span<const int32_t> context)>;

class FakeModel final : public DecoderModel {
 public:
  explicit FakeModel(int32_t vocab_size = 64, int32_t context_length = 256) {
    config_.family = "fake";
    config_.vocab_size = vocab_size;
    config_.context_length = context_length;
    config_.num_layers = 1;
    config_.hidden_size = 1;
    config_.eos_ids = {2};
  }
  const ModelConfig& config() const override { return config_; }
  ModelConfig& mutable_config() { return config_; }
  std::vector<KvLayerSpec> kv_layers(KvDType key, KvDType value) const override {
    return std::vector<KvLayerSpec>(
        static_cast<size_t>(config_.num_layers),
        {.num_kv_heads = 1, .key_dim = 32, .value_dim = 32, .key_dtype = key, .value_dtype = value});
  }
  // One layer for each; before storage is allocated.
  void set_windows(std::vector<int32_t> windows) {
    config_.num_layers = static_cast<int32_t>(windows.size());
    config_.attention.window = std::move(windows);
  }
  Status reserve(int32_t, int32_t) override { return {}; }

  Status forward(const Batch& batch, KvStorage& kv, std::span<float> logits, const HiddenTap*) override {
    if (step_time.count() > 0) std::this_thread::sleep_for(step_time);
    if (fail) return make_error(ErrorCode::kInternal, "the fake model was told to fail");
    ++steps;
    tokens_total += static_cast<int64_t>(batch.ids.size());
    tokens_max = std::max<int64_t>(tokens_max, static_cast<int64_t>(batch.ids.size()));
    auto& stored = static_cast<Kv&>(kv);
    write(batch, stored);
    size_t row = 0, expected = 0;
    for (const BatchSequence& sequence : batch.sequences) {
      QUERN_CHECK(static_cast<size_t>(sequence.span.query_begin) == expected);
      expected += sequence.span.query_count;
      for (int32_t i = 0; i < sequence.span.query_count; ++i) {
        if (row == batch.logits_rows.size() || batch.logits_rows[row] != sequence.span.query_begin + i) continue;
        read_context(batch, stored, sequence, i);
        fill(logits.subspan(row++ * config_.vocab_size, config_.vocab_size));
      }
    }
    QUERN_CHECK(expected == batch.ids.size() && row == batch.logits_rows.size());
    return {};
  }

  Script script;
  std::atomic<bool> fail = false;
  std::chrono::microseconds step_time{0};
  std::atomic<int64_t> steps = 0, tokens_total = 0, tokens_max = 0;
  int32_t nan_after = -1;  // a context whose last token is this one gets logits of NaN

 private:
  // What layer `layer` keeps of a token: another layer's would be taken for another token.
  int32_t mark(int32_t token, int32_t layer) const { return token + layer * config_.vocab_size; }

  void write(const Batch& batch, Kv& kv) const {
    QUERN_CHECK(batch.slots.size() == batch.ids.size() * static_cast<size_t>(batch.layout->num_groups()));
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      const KvPlace place = batch.layout->places[static_cast<size_t>(layer)];
      const auto slots = batch.slots.subspan(static_cast<size_t>(place.group) * batch.ids.size(), batch.ids.size());
      for (size_t i = 0; i < slots.size(); ++i) kv.at(slots[i], place.index) = mark(batch.ids[i], layer);
    }
  }
  void read_context(const Batch& batch, Kv& kv, const BatchSequence& sequence, int32_t query) {
    seen_.clear();
    context_.clear();
    const int32_t position = sequence.span.context_begin + query;
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      const KvPlace place = batch.layout->places[static_cast<size_t>(layer)];
      const auto blocks =
          batch.layout->num_groups() == 1 ? sequence.span.blocks : sequence.tables[static_cast<size_t>(place.group)];
      const auto& windows = config_.attention.window;
      const int32_t window = windows.empty() ? 0 : windows[static_cast<size_t>(layer)];
      const int32_t first = window > 0 ? std::max(0, position - window + 1) : 0;
      const bool longest = position - first >= static_cast<int32_t>(context_.size());
      if (longest) context_.clear();
      for (int32_t p = first; p <= position; ++p) {
        const int32_t block = blocks[p / kKvBlockSize];
        QUERN_CHECK(block >= 0);
        const int32_t kept = kv.at(block * kKvBlockSize + p % kKvBlockSize, place.index);
        QUERN_CHECK(kept >= 0);
        seen_.push_back(kept);
        if (longest) context_.push_back(kept - mark(0, layer));
      }
    }
  }
  void fill(std::span<float> logits) {
    uint64_t state = 1469598103934665603u;
    for (int32_t kept : seen_) state = (state ^ static_cast<uint64_t>(kept + 1)) * 1099511628211u;
    for (float& value : logits) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<float>(state >> 40) / static_cast<float>(1 << 24) * 4.0f;
    }
    if (script) {
      if (const int32_t next = script(context_); next >= 0) logits[next] = 20.0f;
    }
    if (context_.back() == nan_after) std::fill(logits.begin(), logits.end(), std::numeric_limits<float>::quiet_NaN());
  }

  ModelConfig config_;
  std::vector<int32_t> seen_;     // by all layers
  std::vector<int32_t> context_;  // the tokens that the layer that sees furthest sees
};

struct FakeRunner {
  FakeModel* model = nullptr;
  FakeDevice* device = nullptr;
  std::unique_ptr<Runner> runner;
};
inline FakeRunner make_runner(const RunnerOptions& options, int32_t vocab_size = 64, int32_t context_length = 256) {
  auto device = std::make_unique<FakeDevice>();
  auto model = std::make_unique<FakeModel>(vocab_size, context_length);
  FakeRunner result{.model = model.get(), .device = device.get()};
  result.runner = std::move(*Runner::create(std::move(device), std::move(model), options));
  return result;
}

}  // namespace quern::fake
