// The blocks of one sequence. The layers of a model stand in groups of equal size, by what they see: everything, or a
// window. A block holds block_size positions for the layers of one group, so a sequence has one block table per group,
// all of one length, and a group with a window gives back what lies behind it.
//
//   group 0, everything  [ hit | hit | hit | own | tail ]
//   group 1, a window    [  -  |  -  | hit | own | tail ]
//
// A prefix of m blocks is a hit when each group has those of them that a query behind it sees: all, or the last few.
//
// Life in the engine's step:
//   submit   GroupedBlocks blocks(pool, windows, salt);
//   plan     waiting: match_prefix(tokens) → PlannerSequence{computed: match.tokens, blocks: match.blocks,
//                                                             exclusive_blocks: match.cached_blocks}
//            running: {blocks: planned_blocks(computed), exclusive_blocks: exclusive_blocks()}
//   apply 1  release() of every preempted sequence (its computed becomes 0)
//         2  acquire_prefix(tokens) of every admitted one, before anybody grows: growing may evict cached blocks
//         3  try_copy_for_write(computed) of each that runs (the engine copies the bytes), then try_grow(computed +
//            chunk)
//   run      forward()
//   apply 4  publish(tokens, computed) with the new computed, then free_behind_windows(computed)
//   end      release(), or the destructor
// A plan made from these numbers always fits: steps 2 and 3 then cannot be refused.
//
// Thread rule: the pool's owner thread. The pool must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/block_table.h"

namespace quern {

class GroupedBlocks {
 public:
  // windows: of each group, at least one; 0: its layers see everything. salt: see prefix_key(); it cannot change later.
  GroupedBlocks(BlockPool& pool, std::span<const int32_t> windows, uint64_t salt, int32_t block_size = kKvBlockSize);

  int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
  // What SequenceSpan wants. Valid until the next change.
  std::span<const BlockId> blocks(int32_t group) const { return table(group).blocks(); }
  int32_t slot(int32_t group, int32_t position) const { return table(group).slot(position); }
  int32_t length() const { return static_cast<int32_t>(blocks(0).size()); }  // of each table

  // `tokens`, here and below: all ids of the sequence known so far (prompt and output); they only ever grow at the end.

  struct PrefixMatch {
    int32_t tokens = 0;         // positions that need not be computed
    int32_t blocks = 0;         // length of each table
    int32_t cached_blocks = 0;  // of all groups, held by nobody now: taking them lowers the pool's num_available()
  };
  // The longest prefix of full blocks that the pool holds, never all tokens: the last one is always computed, for its
  // logits. Takes nothing; true until the pool changes. The tables must be empty.
  PrefixMatch match_prefix(std::span<const int32_t> tokens);
  // The same, taking the blocks. Returns the number of tokens that need not be computed.
  int32_t acquire_prefix(std::span<const int32_t> tokens);

  // The same question where blocks may also lie elsewhere: the longest prefix of at most `blocks_max` blocks such that
  // has(group, i) for each block i that it needs. Asks once for each block.
  using Has = std::function<bool(int32_t group, int32_t block_idx)>;
  int32_t longest_prefix(int32_t blocks_max, const Has& has);
  // The blocks that a prefix of `num_blocks` needs, in order of position.
  void for_each_needed(int32_t num_blocks, const std::function<void(int32_t group, int32_t block_idx)>& visit) const;
  int32_t prefix_blocks_max(std::span<const int32_t> tokens) const;
  const PrefixKey& key(std::span<const int32_t> tokens, int32_t group, int32_t block_idx);

  // Blocks for positions [0, num_tokens) in each group: acquires what lacks, all or nothing. false: too few.
  [[nodiscard]] bool try_grow(int32_t num_tokens);

  // Gives back the blocks that positions [0, num_tokens) do not need: what wrong guesses had taken.
  void shrink(int32_t num_tokens);

  // Full blocks below `computed` become findable. Call when keys and values of all those positions are written.
  void publish(std::span<const int32_t> tokens, int32_t computed);
  // Gives back what no query at `computed` or behind it sees.
  void free_behind_windows(int32_t computed);

  // A second sequence over the blocks of positions [0, computed): n > 1 answers to one prompt, beams. The partial last
  // block is shared too.
  GroupedBlocks fork(int32_t computed) const;
  // As SequenceBlocks::copy_for_write() for each group, whose copies are appended. false: the pool has too few blocks,
  // and nothing changed.
  [[nodiscard]] bool try_copy_for_write(int32_t position, std::vector<SequenceBlocks::BlockCopy>& copies);

  // Gives everything back, the last positions of all groups first: of a cached prefix the end is evicted before its
  // start, and no group's part of it outlives the others'.
  void release();

  // For the planner. Length of the tables; when the next write at `position` = computed will first copy blocks, only
  // what lies before those: copies take blocks even where the tables are longer than is needed.
  int32_t planned_blocks(int32_t position) const;
  // Blocks of all groups that nobody else holds. Linear in the tables: ask only when blocks are short.
  int32_t exclusive_blocks() const;

 private:
  struct Group {
    int32_t window = 0;
    SequenceBlocks table;
    int32_t known_begin = 0;  // of longest_prefix(): what stands from here on was found
  };
  GroupedBlocks(BlockPool& pool, int32_t block_size) : pool_(&pool), block_size_(block_size) {}
  const SequenceBlocks& table(int32_t group) const { return groups_[static_cast<size_t>(group)].table; }
  // The first position that a query at `position` sees, and of a prefix the first block that is needed.
  static int32_t first_seen(const Group& group, int32_t position);
  int32_t first_needed(const Group& group, int32_t num_blocks) const;

  BlockPool* pool_;
  int32_t block_size_;
  std::vector<Group> groups_;
};

}  // namespace quern
