#include "sched/block_groups.h"

#include <algorithm>

namespace quern {

// The queries of the chunk see chunk + window - 1 positions, and the first of those may be the last one of its block.
int64_t window_blocks(int32_t window, int64_t chunk, int32_t block_size) {
  return (chunk + window - 1 + block_size - 2) / block_size + 1;
}

int64_t peak_blocks(const BlockGroups& groups, int64_t tokens, int64_t chunk) {
  const int64_t spans = (tokens + groups.block_size - 1) / groups.block_size;
  int64_t blocks = 0;
  for (int32_t window : groups.windows) {
    blocks += window == 0 ? spans : std::min(spans, window_blocks(window, chunk, groups.block_size));
  }
  return blocks;
}

int64_t tokens_that_fit(const BlockGroups& groups, int64_t blocks, int64_t chunk, int64_t tokens_max) {
  int64_t fits = 0, too_many = tokens_max + 1;
  while (fits + 1 < too_many) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (peak_blocks(groups, middle, chunk) <= blocks ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace quern
