// One block table of a sequence: which block of the pool holds which positions for one group of layers, and what it
// shares with others. What the engine works with is kv/grouped_blocks.h, which has one of these per group.
//
//   table   [ - | hit | hit | own | tail ]    blocks()[p / block_size] holds position p
//             |    |                 `------- partial: shared only by forks; copied before it is written
//             |    `------------------------- shared, full, published
//             `------------------------------ kNoBlock: behind the group's window
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

  // Key of the block_idx-th full block of `tokens`.
  const PrefixKey& key(std::span<const int32_t> tokens, size_t block_idx);
  // That block where the pool holds it; takes nothing.
  std::optional<BlockId> peek(std::span<const int32_t> tokens, size_t block_idx);
  // Makes an empty table one of `count` blocks: those from `first` on are taken from the pool, which must hold them.
  void take_prefix(std::span<const int32_t> tokens, int32_t first, int32_t count);

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

  // Gives back blocks that lie wholly before `position`, which no layer of the group sees any more: their entries
  // become kNoBlock, the table keeps its length. They must have been published before, if they ever shall be.
  void free_before(int32_t position);

  void release();       // gives everything back, last block first
  void release_last();  // and shortens the table; it must not be empty

  bool is_shared(int32_t position) const;  // somebody else holds the block of this position, too
  // Blocks nobody else holds. Linear in the table: ask only when blocks are short.
  int32_t exclusive_blocks() const;

 private:
  BlockPool* pool_;
  uint64_t salt_;
  int32_t block_size_;
  std::vector<BlockId> blocks_;
  std::vector<PrefixKey> keys_;  // of full blocks, as far as they were asked for; survive release()
  int32_t num_published_ = 0;    // leading blocks that are in the index, or whose twin is
  int32_t num_freed_ = 0;        // leading kNoBlock entries
};

}  // namespace quern
