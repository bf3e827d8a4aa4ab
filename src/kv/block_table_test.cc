#include "kv/block_table.h"

#include <gtest/gtest.h>

#include "kv/kv_testing.h"

namespace quern {
namespace {

using kv_testing::kSize;
using kv_testing::make_pool;
using kv_testing::tokens_from;

SequenceBlocks computed_sequence(BlockPool& pool, std::span<const int32_t> tokens, uint64_t salt = 0) {
  SequenceBlocks table(pool, salt, kSize);
  EXPECT_TRUE(table.try_grow(static_cast<int32_t>(tokens.size())));
  table.publish(tokens, static_cast<int32_t>(tokens.size()));
  return table;
}

TEST(SequenceBlocks, GrowsByWholeBlocksAllOrNothing) {
  auto pool = make_pool(3);
  SequenceBlocks table(*pool, 0, kSize);
  EXPECT_TRUE(table.try_grow(1));
  EXPECT_TRUE(table.try_grow(4));
  EXPECT_EQ(table.blocks().size(), 1u);
  EXPECT_TRUE(table.try_grow(9));
  EXPECT_EQ(table.blocks().size(), 3u);
  EXPECT_EQ(table.slot(6), table.blocks()[1] * kSize + 2);
  SequenceBlocks other(*pool, 0, kSize);
  EXPECT_FALSE(other.try_grow(1));
  EXPECT_FALSE(table.try_grow(17));
  EXPECT_EQ(table.blocks().size(), 3u);
  table.release();
  EXPECT_EQ(pool->num_free(), 3);
  EXPECT_FALSE(other.try_grow(13));
  EXPECT_EQ(pool->num_free(), 3) << "a refused growth takes nothing";
}

TEST(SequenceBlocks, PublishesOnlyFullBlocks) {
  auto pool = make_pool(8);
  const auto tokens = tokens_from(0, 11);
  SequenceBlocks table(*pool, 0, kSize);
  ASSERT_TRUE(table.try_grow(11));
  for (int32_t computed : {3, 7, 11}) {
    table.publish(tokens, computed);
    SequenceBlocks probe(*pool, 0, kSize);
    const auto full = static_cast<size_t>(computed / kSize);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(probe.peek(tokens, i).has_value(), i < full);
  }
  table.release();
  EXPECT_EQ(pool->num_cached(), 2);
}

TEST(SequenceBlocks, TakesTheEndOfAPrefix) {
  auto pool = make_pool(8);
  const auto tokens = tokens_from(0, 17);
  auto first = computed_sequence(*pool, tokens);
  const std::vector<BlockId> blocks(first.blocks().begin(), first.blocks().end());
  first.release();
  SequenceBlocks second(*pool, 0, kSize);
  second.take_prefix(tokens, 2, 4);
  EXPECT_EQ(std::vector(second.blocks().begin(), second.blocks().end()),
            (std::vector<BlockId>{kNoBlock, kNoBlock, blocks[2], blocks[3]}));
  EXPECT_EQ(pool->num_live(), 2);
  second.publish(tokens, 16);
  second.free_before(12);
  EXPECT_EQ(pool->num_live(), 1);
  second.release_last();
  EXPECT_EQ(second.blocks().size(), 3u);
  EXPECT_EQ(pool->num_live(), 0);
  pool->check_identity();
}

TEST(SequenceBlocks, ForkSharesAndCopiesThePartialBlockOnWrite) {
  auto pool = make_pool(8);
  const auto tokens = tokens_from(0, 6);
  auto parent = computed_sequence(*pool, tokens);
  auto child = parent.fork(6);
  EXPECT_EQ(pool->num_live(), 2);
  EXPECT_TRUE(child.is_shared(6)) << "the write of position 6 needs a block of its own";
  EXPECT_EQ(child.exclusive_blocks(), 0);

  const BlockId shared = parent.blocks()[1];
  const auto copy = child.copy_for_write(6);
  ASSERT_TRUE(copy && *copy);
  EXPECT_EQ((*copy)->source, shared);
  EXPECT_EQ((*copy)->target, child.blocks()[1]);
  EXPECT_NE(child.blocks()[1], shared);
  EXPECT_EQ(child.blocks()[0], parent.blocks()[0]);
  EXPECT_EQ(child.exclusive_blocks(), 1);

  const auto in_place = parent.copy_for_write(6);
  ASSERT_TRUE(in_place);
  EXPECT_FALSE(*in_place) << "the last holder writes in place";
  EXPECT_FALSE(parent.is_shared(6));
  parent.release();
  child.release();
  EXPECT_EQ(pool->num_cached(), 1);
  EXPECT_EQ(pool->num_free(), 7);
}

TEST(SequenceBlocks, ForkAtABlockBoundaryCopiesNothing) {
  auto pool = make_pool(8);
  const auto tokens = tokens_from(0, 8);
  auto parent = computed_sequence(*pool, tokens);
  ASSERT_TRUE(parent.try_grow(9));
  auto child = parent.fork(8);
  EXPECT_EQ(child.blocks().size(), 2u) << "blocks not yet written are not shared";
  EXPECT_FALSE(child.copy_for_write(8).value());
  EXPECT_FALSE(parent.copy_for_write(8).value());
}

TEST(SequenceBlocks, CopyIsRefusedWhenThePoolIsEmpty) {
  auto pool = make_pool(2);
  const auto tokens = tokens_from(0, 6);
  auto parent = computed_sequence(*pool, tokens);
  auto child = parent.fork(6);
  const auto copy = child.copy_for_write(6);
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(std::ranges::equal(parent.blocks(), child.blocks()));
}

TEST(SequenceBlocks, TwinsOfForksPublishOnce) {
  auto pool = make_pool(8);
  const auto tokens = tokens_from(0, 8);
  SequenceBlocks parent(*pool, 0, kSize);
  ASSERT_TRUE(parent.try_grow(8));
  auto child = parent.fork(8);
  parent.publish(tokens, 8);
  child.publish(tokens, 8);
  parent.release();
  child.release();
  EXPECT_EQ(pool->num_cached(), 2);
  pool->check_identity();
}

TEST(SequenceBlocks, FreesBlocksBehindTheWindow) {
  auto pool = make_pool(8);
  const auto tokens = tokens_from(0, 14);
  auto table = computed_sequence(*pool, tokens);
  table.free_before(9);
  EXPECT_EQ(table.blocks()[0], kNoBlock);
  EXPECT_EQ(table.blocks()[1], kNoBlock);
  EXPECT_EQ(table.blocks().size(), 4u);
  EXPECT_EQ(pool->num_live(), 2);
  EXPECT_EQ(table.exclusive_blocks(), 2);
  table.free_before(5);  // going back is nothing to do
  EXPECT_EQ(pool->num_live(), 2);
  auto child = table.fork(14);
  table.release();
  EXPECT_EQ(pool->num_live(), 2);
  child.release();
  EXPECT_EQ(pool->num_live(), 0);
  pool->check_identity();
}

TEST(SequenceBlocks, MovesWithoutDoubleRelease) {
  auto pool = make_pool(4);
  SequenceBlocks a(*pool, 0, kSize);
  ASSERT_TRUE(a.try_grow(8));
  SequenceBlocks b = std::move(a);
  SequenceBlocks c(*pool, 0, kSize);
  ASSERT_TRUE(c.try_grow(4));
  c = std::move(b);
  EXPECT_EQ(pool->num_live(), 2);
  EXPECT_EQ(c.blocks().size(), 2u);
}

}  // namespace
}  // namespace quern
