// The device of the host's processors: owns threads and scratch, checks arguments, hands the work to the files beside
// it.
#pragma once

#include <string>
#include <vector>

#include "hardware/thread_pool.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/matmul.h"
#include "kernels/device.h"

namespace quern {

class CpuDevice final : public Device {
 public:
  CpuDevice(int32_t num_threads, std::string_view isa);

  std::string_view name() const override { return name_; }

  Result<std::unique_ptr<Buffer>> allocate(int64_t elements) override;
  Result<std::unique_ptr<KvStorage>> allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) override;
  bool works_in_host_memory() const override { return true; }
  KvDType fast_kv_dtype() const override { return fastest_kv_dtype(); }
  static KvDType fastest_kv_dtype();  // of the instruction set in use, without a device
  void upload(std::span<const float> host, float* device) override;
  void download(const float* device, std::span<float> host) override;

  Result<std::unique_ptr<Weight>> pack(std::span<const WeightRows> parts, int64_t planes,
                                       const WeightForm& form) override;
  void embed(const Weight& table, std::span<const int32_t> ids, Mat out) override;
  void matmul(Mat x, std::span<const MatmulTarget> targets) override;
  void matmul_experts(Mat x, const Weight& weight, const float* bias, std::span<const ExpertRows> groups,
                      Mat out) override;

  void rms_norm(Mat x, const NormSpec& spec, Mat out) override;
  void layer_norm(Mat x, const NormSpec& spec, Mat out) override;
  void rope(Mat x, const RopeSpec& spec, Mat cosine, Mat sine) override;

  void write_kv(Mat key, Mat value, std::span<const int32_t> slots, KvStorage& storage, int32_t layer) override;
  void copy_kv_block(KvStorage& storage, int32_t source, int32_t target) override;
  void attention(Mat query, const KvStorage& storage, int32_t layer, std::span<const SequenceSpan> sequences,
                 const AttentionSpec& spec, Mat out) override;
  void attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads, std::span<const SequenceSpan> sequences,
                      const AttentionSpec& spec, Mat out) override;

  void activate(Mat x, Activation kind, Mat out) override;
  void activate_multiply(Mat gate, Mat up, Activation kind, Mat out) override;
  void swiglu_clamped(Mat gate, Mat up, float limit, Mat out) override;
  void add(Mat x, Mat y, float y_scale, Mat out) override;
  void add_row(Mat x, const float* row, Mat out) override;
  void scale(Mat x, float factor, Mat out) override;
  void scale_rows(Mat x, std::span<const float> factors, Mat out) override;
  void softcap(Mat x, float cap, Mat out) override;
  void gather_rows(Mat x, std::span<const int32_t> rows, Mat out) override;
  void copy(Mat x, Mat out) override;

  void route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) override;
  void combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out) override;

 private:
  ThreadPool pool_;
  CpuMatmul matmul_;
  cpu::CpuAttention attention_;
  std::vector<float> router_scratch_;
  std::string name_;
};

}  // namespace quern
