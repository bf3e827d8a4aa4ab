#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kv/kv_testing.h"

namespace quern {
namespace {

using kv_testing::make_pool;

TEST(BlockPool, RefusesImpossibleSizes) {
  for (int32_t num_blocks : {0, -1, INT32_MAX}) {
    const auto pool = BlockPool::create(num_blocks);
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(pool.error().message.find(std::to_string(num_blocks)), std::string::npos);
  }
}

TEST(BlockPool, GivesEveryBlockOnceThenNone) {
  auto pool = make_pool(5);
  std::set<BlockId> seen;
  for (int i = 0; i < 5; ++i) seen.insert(pool->try_acquire().value());
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 4);
  EXPECT_FALSE(pool->try_acquire());
  EXPECT_EQ(pool->num_live(), 5);
  pool->release(3);
  EXPECT_EQ(pool->num_free(), 1);
  EXPECT_EQ(pool->try_acquire(), 3);
  pool->check_identity();
}

TEST(BlockPool, SharedBlockStaysLiveUntilTheLastRelease) {
  auto pool = make_pool(2);
  const BlockId block = pool->try_acquire().value();
  pool->add_reference(block);
  EXPECT_EQ(pool->references(block), 2);
  pool->release(block);
  EXPECT_EQ(pool->num_live(), 1);
  pool->release(block);
  EXPECT_EQ(pool->num_free(), 2);
  pool->check_identity();
}

TEST(BlockPool, PublishedBlockIsFoundWhileLiveAndWhenCached) {
  auto pool = make_pool(2);
  const std::vector<int32_t> tokens{1, 2, 3, 4};
  const PrefixKey key = prefix_key({}, tokens, 0);
  const BlockId block = pool->try_acquire().value();
  EXPECT_FALSE(pool->try_find(key, tokens));
  pool->publish(block, key, tokens);
  EXPECT_EQ(pool->try_find(key, tokens), block);
  EXPECT_EQ(pool->references(block), 2);
  pool->release(block);
  pool->release(block);
  EXPECT_EQ(pool->num_cached(), 1);
  EXPECT_EQ(pool->peek(key, tokens), block);
  EXPECT_EQ(pool->num_cached(), 1);
  EXPECT_EQ(pool->try_find(key, tokens), block);
  EXPECT_EQ(pool->num_cached(), 0);
  pool->check_identity();
}

TEST(BlockPool, SameKeyWithOtherTokensIsNoHit) {
  auto pool = make_pool(2);
  const std::vector<int32_t> tokens{1, 2, 3, 4};
  const std::vector<int32_t> other{1, 2, 3, 5};
  const PrefixKey key = prefix_key({}, tokens, 0);
  pool->publish(pool->try_acquire().value(), key, tokens);
  EXPECT_FALSE(pool->try_find(key, other));
  EXPECT_FALSE(pool->try_find(key, std::span(tokens).first(3)));
}

TEST(BlockPool, FirstPublishedTwinIsTheOneFound) {
  auto pool = make_pool(3);
  const std::vector<int32_t> tokens{7, 8};
  const PrefixKey key = prefix_key({}, tokens, 0);
  const BlockId first = pool->try_acquire().value();
  const BlockId second = pool->try_acquire().value();
  pool->publish(first, key, tokens);
  pool->publish(second, key, tokens);
  EXPECT_EQ(pool->peek(key, tokens), first);
  pool->release(second);
  EXPECT_EQ(pool->num_cached(), 0) << "a twin is not cached";
  pool->release(first);
  EXPECT_EQ(pool->num_cached(), 1);
  pool->check_identity();
}

TEST(BlockPool, EvictsLeastRecentlyReleasedAndOnlyWhenNothingIsFree) {
  auto pool = make_pool(3);
  std::vector<PrefixKey> keys;
  std::vector<std::vector<int32_t>> tokens{{1}, {2}, {3}};
  std::vector<BlockId> blocks;
  for (const auto& t : tokens) {
    keys.push_back(prefix_key({}, t, 0));
    blocks.push_back(pool->try_acquire().value());
    pool->publish(blocks.back(), keys.back(), t);
  }
  for (int i : {1, 0, 2}) pool->release(blocks[i]);
  ASSERT_EQ(pool->try_find(keys[1], tokens[1]), blocks[1]);
  pool->release(blocks[1]);  // now the most recent
  EXPECT_EQ(pool->try_acquire(), blocks[0]);
  EXPECT_FALSE(pool->peek(keys[0], tokens[0]));
  EXPECT_EQ(pool->try_acquire(), blocks[2]);
  EXPECT_TRUE(pool->peek(keys[1], tokens[1]));
  pool->release(blocks[0]);
  EXPECT_EQ(pool->try_acquire(), blocks[0]) << "a free block goes before a cached one";
  EXPECT_EQ(pool->num_cached(), 1);
  pool->check_identity();
}

TEST(BlockPool, RandomOperationsKeepTheIdentity) {
  std::mt19937 random(7);
  auto pool = make_pool(13);
  std::vector<BlockId> held;
  for (int step = 0; step < 20000; ++step) {
    const std::vector<int32_t> tokens{static_cast<int32_t>(random() % 40)};
    const PrefixKey key = prefix_key({}, tokens, 1);
    switch (random() % 4) {
      case 0:
        if (auto block = pool->try_acquire()) {
          held.push_back(*block);
          if (random() % 2) pool->publish(*block, key, tokens);
        }
        break;
      case 1:
        if (auto block = pool->try_find(key, tokens)) held.push_back(*block);
        break;
      default:
        if (held.empty()) break;
        std::swap(held[random() % held.size()], held.back());
        pool->release(held.back());
        held.pop_back();
    }
    ASSERT_EQ(pool->num_live(), static_cast<int32_t>(std::set(held.begin(), held.end()).size()));
    pool->check_identity();
  }
}

TEST(PrefixKey, DependsOnParentTokensAndSalt) {
  const std::vector<int32_t> a{1, 2, 3};
  const std::vector<int32_t> b{1, 2, 4};
  const PrefixKey key = prefix_key({}, a, 0);
  EXPECT_EQ(key, prefix_key({}, a, 0));
  EXPECT_NE(key, prefix_key({}, b, 0));
  EXPECT_NE(key, prefix_key({}, a, 1));
  EXPECT_NE(key, prefix_key({.low = 1}, a, 0));
  EXPECT_NE(key, prefix_key({.high = 1}, a, 0));
}

using BlockPoolDeathTest = ::testing::Test;
TEST(BlockPoolDeathTest, MisuseAborts) {
  auto pool = make_pool(2);
  EXPECT_DEATH(pool->release(0), "references > 0");
  EXPECT_DEATH(pool->add_reference(1), "references > 0");
  EXPECT_DEATH(pool->references(2), "block < num_blocks_");
  EXPECT_DEATH(pool->references(-1), "block >= 0");
}

}  // namespace
}  // namespace quern
