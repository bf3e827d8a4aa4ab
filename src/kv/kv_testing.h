// What the tests of this room share.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kv/block_pool.h"

namespace quern::kv_testing {

inline constexpr int32_t kSize = 4;  // tokens of a block

inline std::unique_ptr<BlockPool> make_pool(int32_t num_blocks) {
  return std::move(BlockPool::create(num_blocks)).value();
}

inline std::vector<int32_t> tokens_from(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace quern::kv_testing
