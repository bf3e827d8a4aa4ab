// The block table of one sequence: which block of the pool holds which positions, and what it shares with others.
//
//   table   [ hit | hit | own | own | tail ]      blocks()[p / block_size] holds position p
//            `- shared, full, published -'  `- partial: shared only by forks; copied before it is written
//
// Life in the engine's step:
//   submit   SequenceBlocks table(pool, salt);
//   plan     waiting: match_prefix(tokens) → PlannerSequence{computed: match.tokens, blocks: match.blocks,
//                                                             exclusive_blocks: match.cached_blocks}
//            running: {blocks: planned_blocks(computed), exclusive_blocks: exclusive_blocks()}
//   apply 1  release() of every preempted sequence (its computed becomes 0)
//         2  acquire_prefix(tokens) of every admitted one, before anybody grows: growing may evict cached blocks
//         3  copy_for_write(computed) of each that runs (the engine copies the bytes), then try_grow(computed + chunk)
//   run      forward()
//   apply 4  publish(tokens, computed) with the new computed
//   end      release(), or the destructor
// A plan made from these numbers always fits: steps 2 and 3 then cannot be refused.
//
// Thread rule: the pool's owner thread. The pool must outlive its tables.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kv/block_pool.h"

namespace quern {

inline constexpr BlockId kNoBlock = -1;  // in a table: freed, behind the attention window

class SequenceBlocks {
 public:
  // salt: see prefix_key(). It cannot change later: keys of full blocks are kept.
  SequenceBlocks(BlockPool& pool, uint64_t salt, int32_t block_size = kKvBlockSize);
  ~SequenceBlocks();
  SequenceBlocks(SequenceBlocks&& other) noexcept;
  SequenceBlocks& operator=(SequenceBlocks&& other) noexcept;
  SequenceBlocks(const SequenceBlocks&) = delete;
  SequenceBlocks& operator=(const SequenceBlocks&) = delete;

  // What SequenceSpan wants. Valid until the next change of the table.
  std::span<const BlockId> blocks() const { return blocks_; }
  int32_t slot(int32_t position) const;  // block * block_size + offset; the position must have a block

  // `tokens`, here and below: all ids of the sequence known so far (prompt and output); they only ever grow at the end.

  struct PrefixMatch {
    int32_t tokens = 0;  // positions whose keys and values are there
    int32_t blocks = 0;
    int32_t cached_blocks = 0;  // of these, held by nobody now: taking them lowers the pool's num_available()
  };
  // The longest run of full blocks from the start that the pool holds, never all tokens: the last one is always
  // computed, for its logits. Takes nothing; true until the pool changes. The table must be empty.
  PrefixMatch match_prefix(std::span<const int32_t> tokens);
  // Key of the block_idx-th full block of `tokens`.
  const PrefixKey& key(std::span<const int32_t> tokens, size_t block_idx);
  // The same, taking the blocks. Returns the number of tokens that need not be computed.
  int32_t acquire_prefix(std::span<const int32_t> tokens);

  // Blocks for positions [0, num_tokens): acquires what lacks, all or nothing. false: the pool has too few.
  [[nodiscard]] bool try_grow(int32_t num_tokens);

  // Full blocks below `computed` become findable. Call when keys and values of all those positions are written.
  void publish(std::span<const int32_t> tokens, int32_t computed);

  // A second table over the blocks of positions [0, computed): n > 1 answers to one prompt, beams. The partial last
  // block is shared too.
  SequenceBlocks fork(int32_t computed) const;
  struct BlockCopy {
    BlockId source = kNoBlock;
    BlockId target = kNoBlock;
  };
  // Before position `position` and those after it are written: if a fork shares the block of `position`, this table
  // gets one of its own, whose bytes the caller copies (Device::copy_kv_block) before the step writes. nullopt: nothing
  // to copy. kResourceExhausted: the pool has no block; the table is unchanged.
  Result<std::optional<BlockCopy>> copy_for_write(int32_t position);

  // Gives back blocks that lie wholly before `position` (layers all of which attend within a window): their entries
  // become kNoBlock, the table keeps its length. They must have been published before, if they ever shall be.
  void free_before(int32_t position);

  // Gives everything back, last block first, so that of a cached prefix the end is evicted before its start.
  void release();

  // For the planner. Length of the table; when the next write at `position` = computed will first copy a block, only
  // what lies before that one: the copy takes a block even where wrong guesses left the table longer than was needed.
  int32_t planned_blocks(int32_t position) const;
  // Blocks nobody else holds. Linear in the table: ask only when blocks are short.
  int32_t exclusive_blocks() const;

 private:
  bool is_shared(int32_t position) const;

  BlockPool* pool_;
  uint64_t salt_;
  int32_t block_size_;
  std::vector<BlockId> blocks_;
  std::vector<PrefixKey> keys_;  // of full blocks, as far as they were asked for; survive release()
  int32_t num_published_ = 0;    // leading blocks that are in the index, or whose twin is
  int32_t num_freed_ = 0;        // leading kNoBlock entries
};

}  // namespace quern
