// Attention of the CPU device: cuts a call into tiles, spreads them over threads, keeps the scratch.
#pragma once

#include <vector>

#include "hardware/thread_pool.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/host_memory.h"

namespace quern::cpu {

class CpuAttention {
 public:
  // As the operations of Device with the same names; arguments have been checked.
  void attention(ThreadPool& pool, Mat query, const KvLayer& layer, std::span<const SequenceSpan> sequences,
                 const AttentionSpec& spec, Mat out);
  void attention_full(ThreadPool& pool, Mat query, Mat key, Mat value, int32_t num_kv_heads,
                      std::span<const SequenceSpan> sequences, const AttentionSpec& spec, Mat out);

 private:
  void run(ThreadPool& pool, const AttentionCall& call, int64_t num_kv_heads);
  void cut(const AttentionCall& call, int64_t num_kv_heads, int32_t num_threads);
  int64_t split(const AttentionCall& call, const AttentionTile& tile, int64_t partial_begin);

  std::vector<AttentionTile> tiles_;   // to compute
  std::vector<AttentionTile> merges_;  // tiles that were split into segments
  std::vector<float> scratch_;         // per thread
  std::vector<float> partials_;
};

}  // namespace quern::cpu
