#include "kv/grouped_blocks.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quern {

GroupedBlocks::GroupedBlocks(BlockPool& pool, std::span<const int32_t> windows, uint64_t salt, int32_t block_size)
    : GroupedBlocks(pool, block_size) {
  QUERN_CHECK(!windows.empty());
  groups_.reserve(windows.size());
  for (int32_t window : windows) {
    QUERN_CHECK(window >= 0);
    const uint64_t own_salt = group_salt(pool.root(), salt, num_groups());
    groups_.push_back({.window = window, .table = SequenceBlocks(pool, own_salt, block_size)});
  }
}

int32_t GroupedBlocks::first_seen(const Group& group, int32_t position) {
  return group.window == 0 ? 0 : std::max(0, position - group.window + 1);
}

int32_t GroupedBlocks::first_needed(const Group& group, int32_t num_blocks) const {
  return first_seen(group, num_blocks * block_size_) / block_size_;
}

int32_t GroupedBlocks::prefix_blocks_max(std::span<const int32_t> tokens) const {
  QUERN_CHECK(!tokens.empty());
  return static_cast<int32_t>(tokens.size() - 1) / block_size_;
}

const PrefixKey& GroupedBlocks::key(std::span<const int32_t> tokens, int32_t group, int32_t block_idx) {
  return groups_[static_cast<size_t>(group)].table.key(tokens, static_cast<size_t>(block_idx));
}

// Groups that see everything bound the length; then it sinks until each window stands on blocks that are there. A block
// that lacks at i rules out every length that is longer than i and short enough to need i, and shorter ones need no
// block behind those of the longer ones that was not looked at.
int32_t GroupedBlocks::longest_prefix(int32_t blocks_max, const Has& has) {
  int32_t length = blocks_max;
  for (int32_t g = 0; g < num_groups(); ++g) {
    if (groups_[static_cast<size_t>(g)].window > 0) continue;
    int32_t found = 0;
    while (found < length && has(g, found)) ++found;
    length = found;
  }
  for (Group& group : groups_) group.known_begin = length;
  for (int32_t before = -1; before != length;) {
    before = length;
    for (int32_t g = 0; g < num_groups(); ++g) {
      Group& group = groups_[static_cast<size_t>(g)];
      if (group.window == 0) continue;
      group.known_begin = std::min(group.known_begin, length);
      while (group.known_begin > first_needed(group, length)) {
        if (!has(g, --group.known_begin)) length = group.known_begin;
      }
    }
  }
  return length;
}

void GroupedBlocks::for_each_needed(int32_t num_blocks,
                                    const std::function<void(int32_t group, int32_t block_idx)>& visit) const {
  for (int32_t i = 0; i < num_blocks; ++i) {
    for (int32_t g = 0; g < num_groups(); ++g) {
      if (i >= first_needed(groups_[static_cast<size_t>(g)], num_blocks)) visit(g, i);
    }
  }
}

GroupedBlocks::PrefixMatch GroupedBlocks::match_prefix(std::span<const int32_t> tokens) {
  QUERN_CHECK(length() == 0);
  const auto peek = [&](int32_t g, int32_t i) {
    return groups_[static_cast<size_t>(g)].table.peek(tokens, static_cast<size_t>(i));
  };
  PrefixMatch match;
  match.blocks =
      longest_prefix(prefix_blocks_max(tokens), [&](int32_t g, int32_t i) { return peek(g, i).has_value(); });
  match.tokens = match.blocks * block_size_;
  for_each_needed(match.blocks,
                  [&](int32_t g, int32_t i) { match.cached_blocks += pool_->references(*peek(g, i)) == 0; });
  return match;
}

int32_t GroupedBlocks::acquire_prefix(std::span<const int32_t> tokens) {
  const PrefixMatch match = match_prefix(tokens);
  for (Group& group : groups_) group.table.take_prefix(tokens, first_needed(group, match.blocks), match.blocks);
  return match.tokens;
}

bool GroupedBlocks::try_grow(int32_t num_tokens) {
  const int32_t wanted = num_tokens / block_size_ + (num_tokens % block_size_ != 0);
  const int64_t lacking = int64_t{std::max(0, wanted - length())} * num_groups();
  if (lacking > pool_->num_available()) return false;
  for (Group& group : groups_) QUERN_CHECK(group.table.try_grow(num_tokens));
  return true;
}

void GroupedBlocks::publish(std::span<const int32_t> tokens, int32_t computed) {
  for (Group& group : groups_) group.table.publish(tokens, computed);
}

void GroupedBlocks::shrink(int32_t num_tokens) {
  const int32_t wanted = (num_tokens + block_size_ - 1) / block_size_;
  for (Group& group : groups_) {
    while (static_cast<int32_t>(group.table.blocks().size()) > wanted) group.table.release_last();
  }
}

void GroupedBlocks::free_behind_windows(int32_t computed) {
  for (Group& group : groups_) {
    if (group.window > 0) group.table.free_before(first_seen(group, computed));
  }
}

GroupedBlocks GroupedBlocks::fork(int32_t computed) const {
  GroupedBlocks copy(*pool_, block_size_);
  copy.groups_.reserve(groups_.size());
  for (const Group& group : groups_) {
    copy.groups_.push_back({.window = group.window, .table = group.table.fork(computed)});
  }
  return copy;
}

bool GroupedBlocks::try_copy_for_write(int32_t position, std::vector<SequenceBlocks::BlockCopy>& copies) {
  const auto shared =
      std::ranges::count_if(groups_, [&](const Group& group) { return group.table.is_shared(position); });
  if (shared > pool_->num_available()) return false;
  for (Group& group : groups_) {
    const auto copy = group.table.copy_for_write(position);
    QUERN_CHECK(copy.has_value());
    if (*copy) copies.push_back(**copy);
  }
  return true;
}

void GroupedBlocks::release() {
  while (length() > 0) {
    for (Group& group : groups_) group.table.release_last();
  }
}

int32_t GroupedBlocks::planned_blocks(int32_t position) const {
  const bool copies = std::ranges::any_of(groups_, [&](const Group& group) { return group.table.is_shared(position); });
  return copies ? position / block_size_ : length();
}

int32_t GroupedBlocks::exclusive_blocks() const {
  int32_t blocks = 0;
  for (const Group& group : groups_) blocks += group.table.exclusive_blocks();
  return blocks;
}

}  // namespace quern
