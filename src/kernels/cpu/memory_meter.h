// A device that computes nothing and counts the memory that the CPU device would take: a model is loaded onto it as it
// would be onto the other, but no weight is packed and no buffer touched, so that it takes next to no memory or time.
#pragma once

#include "kernels/device.h"

namespace quern {

struct MemoryCount {
  int64_t packed_bytes = 0;    // of weights that are copied into panels
  int64_t in_place_bytes = 0;  // of weights that are read where the file is mapped
  int64_t buffer_bytes = 0;    // of everything that allocate() gave
  int64_t kv_bytes = 0;        // of everything that allocate_kv() gave
};

class MemoryMeter final : public Device {
 public:
  // Of all that was asked for so far; what has been given back since is not taken off.
  const MemoryCount& count() const { return count_; }

  std::string_view name() const override { return "meter"; }
  bool works_in_host_memory() const override { return true; }  // as the CPU device
  KvDType fast_kv_dtype() const override;                      // likewise
  Result<std::unique_ptr<Buffer>> allocate(int64_t elements) override;
  Result<std::unique_ptr<KvStorage>> allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) override;
  void upload(std::span<const float> host, float* device) override;
  void download(const float* device, std::span<float> host) override;
  Result<std::unique_ptr<Weight>> pack(std::span<const WeightRows> parts, int64_t planes,
                                       const WeightForm& form) override;

  void embed(const Weight& /*table*/, std::span<const int32_t> /*ids*/, Mat /*out*/) override {}
  void matmul(Mat /*x*/, std::span<const MatmulTarget> /*targets*/) override {}
  void matmul_experts(Mat /*x*/, const Weight& /*weight*/, const float* /*bias*/,
                      std::span<const ExpertRows> /*groups*/, Mat /*out*/) override {}
  void rms_norm(Mat /*x*/, const NormSpec& /*spec*/, Mat /*out*/) override {}
  void layer_norm(Mat /*x*/, const NormSpec& /*spec*/, Mat /*out*/) override {}
  void rope(Mat /*x*/, const RopeSpec& /*spec*/, Mat /*cosine*/, Mat /*sine*/) override {}
  void write_kv(Mat /*key*/, Mat /*value*/, std::span<const int32_t> /*slots*/, KvStorage& /*storage*/,
                int32_t /*layer*/) override {}
  void copy_kv_block(KvStorage& /*storage*/, int32_t /*source*/, int32_t /*target*/) override {}
  void attention(Mat /*query*/, const KvStorage& /*storage*/, int32_t /*layer*/,
                 std::span<const SequenceSpan> /*sequences*/, const AttentionSpec& /*spec*/, Mat /*out*/) override {}
  void attention_full(Mat /*query*/, Mat /*key*/, Mat /*value*/, int32_t /*num_kv_heads*/,
                      std::span<const SequenceSpan> /*sequences*/, const AttentionSpec& /*spec*/,
                      Mat /*out*/) override {}
  void activate(Mat /*x*/, Activation /*kind*/, Mat /*out*/) override {}
  void activate_multiply(Mat /*gate*/, Mat /*up*/, Activation /*kind*/, Mat /*out*/) override {}
  void swiglu_clamped(Mat /*gate*/, Mat /*up*/, float /*limit*/, Mat /*out*/) override {}
  void add(Mat /*x*/, Mat /*y*/, float /*y_scale*/, Mat /*out*/) override {}
  void add_row(Mat /*x*/, const float* /*row*/, Mat /*out*/) override {}
  void scale(Mat /*x*/, float /*factor*/, Mat /*out*/) override {}
  void scale_rows(Mat /*x*/, std::span<const float> /*factors*/, Mat /*out*/) override {}
  void softcap(Mat /*x*/, float /*cap*/, Mat /*out*/) override {}
  void gather_rows(Mat /*x*/, std::span<const int32_t> /*rows*/, Mat /*out*/) override {}
  void copy(Mat /*x*/, Mat /*out*/) override {}
  // Every token goes to the first experts, for the caller may look where.
  void route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) override;
  void combine_experts(Mat /*x*/, std::span<const float> /*weights*/, int32_t /*top_k*/, Mat /*out*/) override {}

 private:
  MemoryCount count_;
};

}  // namespace quern
