#include "engine/kv_sizing.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

const KvNeeds kNeeds{.context_length = 8192, .block_bytes = 1000, .bytes_available = 4'000'000};

TEST(KvSizing, DefaultHoldsOneLongSequenceOrManyShortOnes) {
  const auto one = size_kv({.max_num_seqs = 1}, kNeeds);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->num_blocks, 512);
  EXPECT_EQ(one->max_model_len, 8192);
  EXPECT_EQ(size_kv({.max_num_seqs = 15}, kNeeds)->num_blocks, 15 * 64);
}

TEST(KvSizing, AtMostAQuarterOfFreeMemory) {
  KvNeeds needs = kNeeds;
  needs.bytes_available = 400'000;
  const auto size = size_kv({}, needs);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->num_blocks, 100);
  EXPECT_EQ(size->max_model_len, 1600);
  EXPECT_EQ(size_kv({.max_model_len = 1600, .max_num_seqs = 1}, needs)->max_model_len, 1600);
  EXPECT_EQ(size_kv({.max_model_len = 1601}, needs).error().code, ErrorCode::kResourceExhausted);
}

TEST(KvSizing, ExplicitSizeLowersTheLength) {
  const auto size = size_kv({.max_model_len = 4096, .kv_cache_bytes = 10'500}, kNeeds);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->num_blocks, 10);
  EXPECT_EQ(size->max_model_len, 160);
  EXPECT_EQ(size_kv({.kv_cache_bytes = 9'000'000}, kNeeds)->max_model_len, 8192);
}

// Six groups of layers, of which five see 512 positions.
TEST(KvSizing, WindowsMakeLongSequencesFit) {
  KvNeeds needs = kNeeds;
  needs.groups.windows = {0, 512, 512, 512, 512, 512};
  const EngineOptions one{.max_num_batched_tokens = 128, .max_num_seqs = 1};
  constexpr int64_t kWindow = (128 + 511 + 14) / 16 + 1;
  EXPECT_EQ(size_kv(one, needs)->num_blocks, 512 + 5 * kWindow);
  EXPECT_EQ(size_kv(one, needs)->max_model_len, 8192);
  EngineOptions small = one;
  small.kv_cache_bytes = (100 + 5 * kWindow) * 1000;
  EXPECT_EQ(size_kv(small, needs)->max_model_len, 1600);
  small.kv_cache_bytes = 60'000;
  EXPECT_EQ(size_kv(small, needs)->max_model_len, 160) << "shorter than the window: a block of each group";
  small.kv_cache_bytes = 5'999;
  EXPECT_FALSE(size_kv(small, needs));
  needs.groups.windows = {512};
  small.kv_cache_bytes = kWindow * 1000;
  EXPECT_EQ(size_kv(small, needs)->max_model_len, 8192) << "no layer needs more than its window";
}

TEST(KvSizing, RefusesNonsense) {
  for (const EngineOptions& options :
       {EngineOptions{.max_model_len = 8193}, EngineOptions{.max_model_len = 1}, EngineOptions{.max_model_len = -5},
        EngineOptions{.kv_cache_bytes = 999}, EngineOptions{.kv_cache_bytes = -1}}) {
    const auto size = size_kv(options, kNeeds);
    ASSERT_FALSE(size);
    EXPECT_EQ(size.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace quern
