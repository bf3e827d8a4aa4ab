#include "kv/disk_tier.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

namespace quern {
namespace {

constexpr size_t kBytes = 3000;
constexpr int32_t kTokens = 4;

std::filesystem::path fresh_path() {
  const auto path = std::filesystem::path(::testing::TempDir()) /
                    (std::string("quern_disk_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove(path);
  return path;
}

DiskTier::Options options_for(const std::filesystem::path& path, int32_t slots = 8) {
  return {.path = path,
          .bytes_max = 4096 + int64_t{slots} * 4096,
          .fingerprint = 7,
          .block_bytes = kBytes,
          .block_tokens = kTokens};
}
std::unique_ptr<DiskTier> open(const DiskTier::Options& options) {
  auto tier = DiskTier::open(options);
  EXPECT_TRUE(tier) << tier.error().message;
  return std::move(*tier);
}

PrefixKey key(uint64_t i) {
  return {.low = i, .high = i * 3};
}
std::vector<int32_t> tokens(int32_t i) {
  return {i, i + 1, i + 2, i + 3};
}
std::vector<std::byte> bytes(int32_t i) {
  return std::vector<std::byte>(kBytes, static_cast<std::byte>(i));
}
void put(DiskTier& tier, int32_t i) {
  tier.put(key(static_cast<uint64_t>(i)), tokens(i), bytes(i));
}
bool has(DiskTier& tier, int32_t i) {
  std::vector<std::byte> read(kBytes);
  return tier.get(key(static_cast<uint64_t>(i)), tokens(i), read) && read == bytes(i);
}

TEST(DiskTier, BlocksComeBackAlsoAfterARestart) {
  const auto options = options_for(fresh_path());
  PrefixKey root;
  {
    auto tier = open(options);
    EXPECT_EQ(tier->note(), "");
    root = tier->root();
    EXPECT_EQ(tier->num_slots(), 8);
    put(*tier, 1), put(*tier, 2);
    EXPECT_TRUE(has(*tier, 1));
    EXPECT_FALSE(has(*tier, 3));
    EXPECT_FALSE(tier->contains(key(1), tokens(9))) << "the tokens are compared";
  }
  auto tier = open(options);
  EXPECT_EQ(tier->note(), "");
  EXPECT_EQ(tier->root(), root);
  EXPECT_EQ(tier->num_used(), 2);
  EXPECT_TRUE(has(*tier, 1) && has(*tier, 2));
}

TEST(DiskTier, TheLeastRecentlyUsedGoesAndTheFileStaysBounded) {
  const auto path = fresh_path();
  auto tier = open(options_for(path, 3));
  for (int32_t i = 1; i <= 3; ++i) put(*tier, i);
  EXPECT_TRUE(has(*tier, 1));
  put(*tier, 4);
  EXPECT_TRUE(has(*tier, 1) && !has(*tier, 2) && has(*tier, 3) && has(*tier, 4));
  EXPECT_LE(std::filesystem::file_size(path), 4096u * 4);
  tier.reset();
  EXPECT_EQ(open(options_for(path, 2))->num_used(), 2) << "a smaller bound";
  EXPECT_LE(std::filesystem::file_size(path), 4096u * 3);
}

TEST(DiskTier, DamageIsAbsence) {
  const auto path = fresh_path();
  const auto options = options_for(path);
  const auto damage = [&](int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.put('\x55');
  };
  {
    auto tier = open(options);
    for (int32_t i = 1; i <= 3; ++i) put(*tier, i);
    damage(4096 + 4096 + 500);  // a byte of block 2
    EXPECT_TRUE(has(*tier, 1));
    EXPECT_FALSE(has(*tier, 2));
    EXPECT_FALSE(tier->contains(key(2), tokens(2))) << "forgotten";
    put(*tier, 5);
    EXPECT_TRUE(has(*tier, 5));
  }
  damage(4096 + 2);  // the head of slot 0
  {
    auto tier = open(options);
    EXPECT_EQ(tier->note(), "");
    EXPECT_TRUE(!has(*tier, 1) && has(*tier, 3) && has(*tier, 5));
  }
  std::filesystem::resize_file(path, 4096 * 3 + 1000);
  {
    auto tier = open(options);
    EXPECT_FALSE(has(*tier, 3)) << "cut in the middle";
  }
  damage(20);
  {
    auto tier = open(options);
    EXPECT_NE(tier->note().find(path.filename().string()), std::string::npos);
    EXPECT_EQ(tier->num_used(), 0);
  }
  auto other = options;
  other.fingerprint = 8;
  EXPECT_NE(open(other)->note(), "");
}

TEST(DiskTier, RefusesWhatCannotWork) {
  auto small = options_for(fresh_path());
  small.bytes_max = 5000;
  EXPECT_EQ(DiskTier::open(small).error().code, ErrorCode::kInvalidArgument);
  auto nowhere = options_for("/nonexistent/folder/file");
  EXPECT_EQ(DiskTier::open(nowhere).error().code, ErrorCode::kIo);
  const auto options = options_for(fresh_path());
  auto tier = open(options);
  EXPECT_EQ(DiskTier::open(options).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace quern
