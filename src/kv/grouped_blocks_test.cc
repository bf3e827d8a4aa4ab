#include "kv/grouped_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "kv/kv_testing.h"

namespace quern {
namespace {

using kv_testing::kSize;
using kv_testing::make_pool;
using kv_testing::tokens_from;

const std::vector<int32_t> kOne{0};
const std::vector<int32_t> kMixed{0, 6};

GroupedBlocks fresh(BlockPool& pool, std::span<const int32_t> windows, uint64_t salt = 0) {
  return GroupedBlocks(pool, windows, salt, kSize);
}

// Computed in steps of `chunk` tokens, as the engine does it.
GroupedBlocks computed_sequence(BlockPool& pool, std::span<const int32_t> windows, std::span<const int32_t> tokens,
                                int32_t chunk = 3) {
  GroupedBlocks blocks = fresh(pool, windows);
  const auto end = static_cast<int32_t>(tokens.size());
  for (int32_t computed = 0; computed < end;) {
    computed = std::min(computed + chunk, end);
    EXPECT_TRUE(blocks.try_grow(computed));
    blocks.publish(tokens, computed);
    blocks.free_behind_windows(computed);
  }
  return blocks;
}

std::vector<BlockId> table(const GroupedBlocks& blocks, int32_t group) {
  return {blocks.blocks(group).begin(), blocks.blocks(group).end()};
}

TEST(GroupedBlocks, FindsTheLongestPrefixButLeavesOneToken) {
  auto pool = make_pool(16);
  const auto tokens = tokens_from(100, 12);
  auto first = computed_sequence(*pool, kOne, tokens);
  const auto blocks = table(first, 0);

  auto second = fresh(*pool, kOne);
  auto match = second.match_prefix(tokens);
  EXPECT_EQ(match.tokens, 8) << "the last of 12 tokens must be computed, so its block is no hit";
  EXPECT_EQ(match.cached_blocks, 0);

  auto longer = tokens;
  longer.push_back(1);
  first.release();
  auto third = fresh(*pool, kOne);
  match = third.match_prefix(longer);
  EXPECT_EQ(match.tokens, 12);
  EXPECT_EQ(match.blocks, 3);
  EXPECT_EQ(match.cached_blocks, 3);
  EXPECT_EQ(third.acquire_prefix(longer), 12);
  EXPECT_EQ(table(third, 0), blocks);
  EXPECT_EQ(pool->num_live(), 3);

  auto branch = longer;
  branch[5] = -7;
  EXPECT_EQ(fresh(*pool, kOne).acquire_prefix(branch), 4);
  EXPECT_EQ(fresh(*pool, kOne, /*salt=*/9).acquire_prefix(longer), 0);
  pool->check_identity();
}

TEST(GroupedBlocks, EvictionEatsAPrefixFromItsEnd) {
  for (const auto& windows : {kOne, std::vector{0, 0}}) {
    const auto groups = static_cast<int32_t>(windows.size());
    auto pool = make_pool(4 * groups);
    const auto tokens = tokens_from(0, 17);
    computed_sequence(*pool, windows, std::span(tokens).first(16)).release();
    EXPECT_EQ(pool->num_cached(), 4 * groups);
    auto other = fresh(*pool, windows);
    for (int32_t grown = 1; grown <= 4; ++grown) {
      ASSERT_TRUE(other.try_grow(grown * kSize));
      EXPECT_EQ(fresh(*pool, windows).match_prefix(tokens).blocks, 4 - grown) << "of all groups together";
    }
  }
}

TEST(GroupedBlocks, AWindowKeepsOnlyWhatIsSeen) {
  auto pool = make_pool(40);
  const auto tokens = tokens_from(0, 30);
  auto blocks = computed_sequence(*pool, kMixed, tokens, 1);
  EXPECT_EQ(blocks.length(), 8);
  const auto window = table(blocks, 1);
  // Position 30 sees 25 … 30, which begin in block 6.
  EXPECT_TRUE(std::ranges::all_of(std::span(window).first(6), [](BlockId id) { return id == kNoBlock; }));
  EXPECT_TRUE(std::ranges::all_of(std::span(window).subspan(6), [](BlockId id) { return id != kNoBlock; }));
  EXPECT_TRUE(std::ranges::all_of(table(blocks, 0), [](BlockId id) { return id != kNoBlock; }));
  EXPECT_EQ(pool->num_live(), 8 + 2);
  EXPECT_EQ(blocks.exclusive_blocks(), 10);
  EXPECT_EQ(blocks.slot(1, 29), window[7] * kSize + 1);
}

TEST(GroupedBlocks, APrefixNeedsOfAWindowOnlyItsEnd) {
  auto pool = make_pool(16);
  const auto tokens = tokens_from(0, 30);
  computed_sequence(*pool, kMixed, tokens, 1).release();
  EXPECT_EQ(pool->num_cached(), 14) << "seven full blocks of each group";
  auto longer = tokens;
  longer.push_back(1);
  auto hit = fresh(*pool, kMixed);
  const auto match = hit.match_prefix(longer);
  EXPECT_EQ(match.tokens, 28);
  EXPECT_EQ(match.blocks, 7);
  EXPECT_EQ(match.cached_blocks, 7 + 2) << "positions 23 … 27 of the window";
  EXPECT_EQ(hit.acquire_prefix(longer), 28);
  EXPECT_EQ(pool->num_live(), 9);
  EXPECT_EQ(table(hit, 1)[4], kNoBlock);
  EXPECT_NE(table(hit, 1)[5], kNoBlock);

  // Two free blocks and four more for somebody else: those behind the window were given back first and go first.
  auto other = fresh(*pool, kOne, /*salt=*/5);
  ASSERT_TRUE(other.try_grow(6 * kSize));
  EXPECT_EQ(hit.exclusive_blocks(), 9);
  hit.release();
  EXPECT_EQ(fresh(*pool, kMixed).match_prefix(longer).tokens, 28);
  // Of a shorter prompt the window's blocks are gone, though the full group has all of its blocks.
  EXPECT_EQ(fresh(*pool, kMixed).match_prefix(std::span(tokens).first(17)).tokens, 0);
  pool->check_identity();
}

TEST(GroupedBlocks, GroupsNeverShareABlock) {
  auto pool = make_pool(40);
  const auto tokens = tokens_from(0, 13);
  const std::vector<int32_t> windows{0, 0, 20};
  auto a = computed_sequence(*pool, windows, tokens);
  auto b = fresh(*pool, windows);
  EXPECT_EQ(b.acquire_prefix(tokens), 12);
  std::set<BlockId> ids;
  for (int32_t group = 0; group < 3; ++group) {
    EXPECT_TRUE(std::ranges::equal(a.blocks(group).first(3), b.blocks(group)));
    ids.insert(b.blocks(group).begin(), b.blocks(group).end());
  }
  EXPECT_EQ(ids.size(), 9u);
  EXPECT_NE(group_salt(pool->root(), 7, 1), group_salt(pool->root(), 7, 2));
  EXPECT_EQ(group_salt(pool->root(), 7, 0), 7u) << "one group keeps the salt";
}

TEST(GroupedBlocks, GrowthIsAllOrNothing) {
  auto pool = make_pool(5);
  auto blocks = fresh(*pool, kMixed);
  EXPECT_TRUE(blocks.try_grow(8));
  EXPECT_FALSE(blocks.try_grow(9)) << "one block left for two groups";
  EXPECT_EQ(blocks.length(), 2);
  EXPECT_EQ(pool->num_available(), 1);
}

TEST(GroupedBlocks, ShrinkingGivesBackWhatIsNotNeeded) {
  auto pool = make_pool(16);
  const auto tokens = tokens_from(100, 9);
  auto blocks = computed_sequence(*pool, kMixed, tokens);
  const auto before = table(blocks, 0);
  const int32_t free = pool->num_available();
  ASSERT_TRUE(blocks.try_grow(17));
  EXPECT_LT(pool->num_available(), free);
  blocks.shrink(9);
  EXPECT_EQ(table(blocks, 0), before);
  EXPECT_EQ(blocks.length(), 3);
  EXPECT_EQ(pool->num_available(), free);
  blocks.shrink(9);
  EXPECT_EQ(blocks.length(), 3);
  blocks.publish(tokens, 9);
  pool->check_identity();
}

TEST(GroupedBlocks, AForkCopiesTheTailOfEachGroup) {
  auto pool = make_pool(20);
  const auto tokens = tokens_from(0, 14);
  auto parent = computed_sequence(*pool, kMixed, tokens);
  const int32_t live = pool->num_live();
  auto child = parent.fork(14);
  EXPECT_EQ(pool->num_live(), live);
  EXPECT_EQ(child.exclusive_blocks(), 0);
  EXPECT_EQ(child.planned_blocks(14), 3) << "the write of position 14 needs blocks of its own";
  std::vector<SequenceBlocks::BlockCopy> copies;
  ASSERT_TRUE(child.try_copy_for_write(14, copies));
  ASSERT_EQ(copies.size(), 2u);
  for (int32_t group : {0, 1}) {
    const auto& copy = copies[static_cast<size_t>(group)];
    EXPECT_EQ(copy.source, parent.blocks(group)[3]);
    EXPECT_EQ(copy.target, child.blocks(group)[3]);
    EXPECT_NE(copy.source, copy.target);
  }
  EXPECT_EQ(child.planned_blocks(14), 4);
  copies.clear();
  ASSERT_TRUE(parent.try_copy_for_write(14, copies)) << "the last holder writes in place";
  EXPECT_TRUE(copies.empty());
  parent.release();
  child.release();
  EXPECT_EQ(pool->num_live(), 0);
}

TEST(GroupedBlocks, ARefusedCopyChangesNothing) {
  auto pool = make_pool(5);
  auto parent = fresh(*pool, kMixed);
  ASSERT_TRUE(parent.try_grow(6));
  auto child = parent.fork(6);
  std::vector<SequenceBlocks::BlockCopy> copies;
  EXPECT_FALSE(child.try_copy_for_write(6, copies)) << "one block left for two groups";
  EXPECT_TRUE(copies.empty());
  for (int32_t group : {0, 1}) EXPECT_TRUE(std::ranges::equal(parent.blocks(group), child.blocks(group)));
}

// The parent guessed far ahead, wrongly, and was forked then: its spare blocks do not pay for the copies.
TEST(GroupedBlocks, ACopyIsPlannedThoughTheTablesAreLongerThanNeeded) {
  auto pool = make_pool(10);
  auto parent = fresh(*pool, kMixed);
  ASSERT_TRUE(parent.try_grow(11));
  auto child = parent.fork(6);
  EXPECT_EQ(child.length(), 2);
  EXPECT_EQ(parent.planned_blocks(6), 1) << "blocks to copy into, though positions up to 12 have theirs";
  const int32_t before = pool->num_available();
  std::vector<SequenceBlocks::BlockCopy> copies;
  ASSERT_TRUE(parent.try_copy_for_write(6, copies));
  ASSERT_TRUE(parent.try_grow(7));
  EXPECT_EQ(before - pool->num_available(), 2);
  EXPECT_EQ(parent.planned_blocks(6), 3);
}

// Against the definition, over random holes.
TEST(GroupedBlocks, LongestPrefixIsTheLongest) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
  auto pool = make_pool(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> windows;
    for (int32_t count = 1 + below(3); count > 0; --count) windows.push_back(below(3) == 0 ? 0 : 1 + below(14));
    GroupedBlocks blocks = fresh(*pool, windows);
    const int32_t most = below(12), holes = below(12);
    std::set<std::pair<int32_t, int32_t>> lacking;
    for (int32_t i = 0; i < holes; ++i) lacking.emplace(below(static_cast<uint32_t>(windows.size())), below(12));
    int32_t expected = 0;
    for (int32_t length = most; length > 0 && expected == 0; --length) {
      bool all = true;
      blocks.for_each_needed(length, [&](int32_t group, int32_t i) { all &= !lacking.contains({group, i}); });
      if (all) expected = length;
    }
    std::set<std::pair<int32_t, int32_t>> asked;
    const int32_t found = blocks.longest_prefix(most, [&](int32_t group, int32_t i) {
      EXPECT_TRUE(asked.emplace(group, i).second) << "asked twice";
      return !lacking.contains({group, i});
    });
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace quern
