// Weights and matrix products of the CPU device: packing, embedding rows, x · Wᵀ for plain and for expert matrices.
//
// Three ways to multiply, chosen when a weight is packed:
//  - in place: rows are read from the source bytes (F32, F16, BF16) or dequantised a tile at a time (all other types)
//  and
//    multiplied in float32. Always taken with Precision::kExact and for types without a packed form.
//  - packed: quantised weights are interleaved once (pack.h), activations are quantised to int8 per block of 32,
//  integer
//    products are exact and float32 work remains per block only.
//  - bfloat16: F16 and BF16 weights, where the machine has tiles for them (matmul_bf16.h).
// Either way an output is one reduction whose order depends on the number of columns only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hardware/thread_pool.h"
#include "kernels/device.h"

namespace quern {

class CpuMatmul {
 public:
  // num_threads: the largest number of threads of a pool that is passed to the products; each has its own scratch.
  explicit CpuMatmul(int32_t num_threads);
  ~CpuMatmul();
  CpuMatmul(const CpuMatmul&) = delete;
  CpuMatmul& operator=(const CpuMatmul&) = delete;

  // As Device::pack. With a pool, packs in parallel. Errors: kInvalidArgument (parts that do not fit together, integer
  // types), kResourceExhausted (no memory). Thread-safe where `pool` is null.
  Result<std::unique_ptr<Weight>> pack_weight(std::span<const WeightRows> parts, int64_t planes, const WeightForm& form,
                                              ThreadPool* pool = nullptr);

  // As the operations of Device with the same names; `weight` and `table` come from pack_weight of any CpuMatmul.
  void embed(const Weight& table, std::span<const int32_t> ids, Mat out);
  void matmul(ThreadPool& pool, Mat x, std::span<const Device::MatmulTarget> targets);
  void matmul_experts(ThreadPool& pool, Mat x, const Weight& weight, const float* bias,
                      std::span<const ExpertRows> groups, Mat out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
