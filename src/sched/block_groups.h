// How positions take KV blocks, as far as the planner and the sizing of the cache must know it.
#pragma once

#include <cstdint>
#include <vector>

namespace quern {

// A span of block_size positions takes one block of each group of layers. A group with a window gives back the blocks
// that lie behind it after each step; one without (0) keeps all.
struct BlockGroups {
  int32_t block_size = 16;
  std::vector<int32_t> windows = {0};  // of each group

  int32_t count() const { return static_cast<int32_t>(windows.size()); }
};

// Blocks of a group with a window, at most, in a step that computes `chunk` tokens of a sequence.
int64_t window_blocks(int32_t window, int64_t chunk, int32_t block_size);

// The most blocks that a sequence of `tokens` tokens holds at a time when no step computes more than `chunk` of them.
int64_t peak_blocks(const BlockGroups& groups, int64_t tokens, int64_t chunk);
// The longest sequence, at most `tokens_max`, whose peak_blocks() are not more than `blocks`; 0: not one token.
int64_t tokens_that_fit(const BlockGroups& groups, int64_t blocks, int64_t chunk, int64_t tokens_max);

}  // namespace quern
