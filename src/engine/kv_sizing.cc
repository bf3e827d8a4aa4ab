#include "engine/kv_sizing.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "hardware/inventory/host.h"
#include "kernels/device.h"

namespace quern {

namespace {

constexpr int64_t kTokensPerSequence = 1024;  // what each of max_num_seqs is sure to find by default
constexpr int64_t kBlocksMax = std::numeric_limits<int32_t>::max() / kKvBlockSize;

Result<int64_t> wanted_model_len(const EngineOptions& options, int32_t context_length) {
  if (options.max_model_len == 0) return context_length;
  if (options.max_model_len < 2 || options.max_model_len > context_length) {
    return invalid_argument(fmt::format("max_model_len: {} is not between 2 and {}, the model's context length",
                                        options.max_model_len, context_length));
  }
  return options.max_model_len;
}

}  // namespace

KvNeeds kv_needs(const ModelConfig& config, const KvLayout& layout, int64_t bytes_available) {
  return {.context_length = config.context_length,
          .block_bytes = layout.block_bytes(),
          .bytes_available = bytes_available,
          .groups = {.block_size = kKvBlockSize, .windows = layout.windows}};
}

Result<KvSize> size_kv(const EngineOptions& options, const KvNeeds& needs) {
  QUERN_ASSIGN(const int64_t model_len, wanted_model_len(options, needs.context_length));
  if (options.kv_cache_bytes < 0)
    return invalid_argument(fmt::format("kv_cache_bytes: {} is negative", options.kv_cache_bytes));

  const double share = options.gpu_memory_utilization;
  if (!(share >= 0 && share <= 1)) {
    return invalid_argument(fmt::format("gpu_memory_utilization: {} is not between 0 and 1", share));
  }
  if (share > 0 && options.kv_cache_bytes > 0) {
    return invalid_argument("gpu_memory_utilization: not together with kv_cache_bytes");
  }

  // A sequence's share of a step counts, too: a window gives blocks back behind the step that computed them.
  const auto blocks_for = [&](int64_t tokens) {
    return peak_blocks(needs.groups, tokens, options.max_num_batched_tokens);
  };
  const int64_t least = blocks_for(1);
  int64_t blocks = 0;
  if (share > 0) {
    blocks = static_cast<int64_t>(share * static_cast<double>(needs.bytes_available)) / needs.block_bytes;
    if (blocks < least || (options.max_model_len > 0 && blocks < blocks_for(model_len))) {
      return make_error(
          ErrorCode::kResourceExhausted,
          fmt::format("gpu_memory_utilization: {} of the {} bytes that are free does not hold one "
                      "sequence of {} tokens",
                      share, needs.bytes_available, options.max_model_len > 0 ? model_len : kKvBlockSize));
    }
  } else if (options.kv_cache_bytes > 0) {
    blocks = options.kv_cache_bytes / needs.block_bytes;
    if (blocks < least) {
      return invalid_argument(fmt::format("kv_cache_bytes: {} is less than the {} of one block of {} tokens",
                                          options.kv_cache_bytes, least * needs.block_bytes, kKvBlockSize));
    }
  } else {
    const int64_t affordable = std::max<int64_t>(least, needs.bytes_available / 4 / needs.block_bytes);
    const int64_t sequences = options.max_num_seqs * blocks_for(std::min(model_len, kTokensPerSequence));
    blocks = std::min(std::max(blocks_for(model_len), sequences), affordable);
    if (options.max_model_len > 0 && blocks < blocks_for(model_len)) {
      return make_error(
          ErrorCode::kResourceExhausted,
          fmt::format("max_model_len: {} tokens take {} bytes of KV cache; a quarter of the free memory is {}",
                      model_len, blocks_for(model_len) * needs.block_bytes, needs.bytes_available / 4));
    }
  }
  blocks = std::min(blocks, kBlocksMax);
  const int64_t longest = tokens_that_fit(needs.groups, blocks, options.max_num_batched_tokens, model_len);
  return KvSize{.num_blocks = static_cast<int32_t>(blocks), .max_model_len = static_cast<int32_t>(longest)};
}

int64_t available_memory_bytes() {
  constexpr int64_t kWithoutProc = int64_t{1} << 40;
  const MemoryInfo memory = read_memory({});
  return memory.total_bytes == 0 ? kWithoutProc : memory.usable_available_bytes();
}

}  // namespace quern
