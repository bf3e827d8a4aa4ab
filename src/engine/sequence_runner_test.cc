#include "engine/sequence_runner.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/fake_model.h"

namespace quern {
namespace {

std::vector<float> logits_of(const std::vector<int32_t>& ids, int32_t budget, LogitsRows rows) {
  auto fake = fake::make_runner({.max_num_batched_tokens = budget, .max_logits_rows = budget});
  auto sequences = SequenceRunner::create(*fake.runner, {.tokens_max = 100});
  EXPECT_TRUE(sequences);
  std::vector<float> all;
  EXPECT_TRUE(sequences->append_chunked(0, ids, rows, [&](int32_t position, std::span<float> logits) -> Status {
    if (rows == LogitsRows::kAll) {
      EXPECT_EQ(position * 64, static_cast<int32_t>(all.size()));
    }
    all.insert(all.end(), logits.begin(), logits.end());
    return {};
  }));
  EXPECT_EQ(sequences->length(0), static_cast<int32_t>(ids.size()));
  return all;
}

TEST(SequenceRunner, ChunkingChangesNothing) {
  std::vector<int32_t> ids(50);
  std::iota(ids.begin(), ids.end(), 3);
  const auto whole = logits_of(ids, 64, LogitsRows::kAll);
  EXPECT_EQ(whole.size(), 50u * 64);
  for (int32_t budget : {1, 7, 16, 49}) EXPECT_EQ(logits_of(ids, budget, LogitsRows::kAll), whole);
  const std::vector<float> last(whole.end() - 64, whole.end());
  EXPECT_EQ(logits_of(ids, 9, LogitsRows::kLast), last);
  EXPECT_TRUE(logits_of(ids, 9, LogitsRows::kNone).empty());
}

TEST(SequenceRunner, SequencesKeepApartAndTruncate) {
  auto fake = fake::make_runner({.max_num_batched_tokens = 64});
  auto sequences = SequenceRunner::create(*fake.runner, {.num_sequences = 2, .tokens_max = 40});
  ASSERT_TRUE(sequences);
  const std::vector<int32_t> a{5, 6, 7}, b{8, 9}, next{11};
  using Part = SequenceRunner::Append;
  const Part both[] = {{0, a, LogitsRows::kLast}, {1, b, LogitsRows::kLast}};
  const auto first = sequences->append(both);
  ASSERT_TRUE(first);
  EXPECT_EQ(std::vector<float>(first->begin(), first->begin() + 64), logits_of(a, 64, LogitsRows::kLast));
  EXPECT_EQ(std::vector<float>(first->begin() + 64, first->end()), logits_of(b, 64, LogitsRows::kLast));

  sequences->truncate(0, 2);
  const Part again[] = {{0, next, LogitsRows::kLast}};
  const auto second = sequences->append(again);
  ASSERT_TRUE(second);
  EXPECT_EQ(std::vector<float>(second->begin(), second->end()), logits_of({5, 6, 11}, 64, LogitsRows::kLast));
}

TEST(SequenceRunner, RefusesWhatDoesNotFit) {
  auto fake = fake::make_runner({.max_num_batched_tokens = 8, .max_logits_rows = 2});
  EXPECT_EQ(SequenceRunner::create(*fake.runner, {.tokens_max = 257}).error().code, ErrorCode::kInvalidArgument);
  auto sequences = SequenceRunner::create(*fake.runner, {.tokens_max = 6});
  ASSERT_TRUE(sequences);
  const auto code = [&](const std::vector<int32_t>& ids, LogitsRows rows) {
    const SequenceRunner::Append part{0, ids, rows};
    const auto result = sequences->append(std::span(&part, 1));
    return result ? "" : error_code_name(result.error().code);
  };
  EXPECT_STREQ(code({64}, LogitsRows::kNone), "invalid_argument");
  EXPECT_STREQ(code({-1}, LogitsRows::kNone), "invalid_argument");
  EXPECT_STREQ(code({1, 2, 3}, LogitsRows::kAll), "invalid_argument");
  EXPECT_STREQ(code({1, 2, 3, 4, 5, 6, 7}, LogitsRows::kNone), "invalid_argument");
  EXPECT_STREQ(code({1, 2, 3, 4, 5, 6}, LogitsRows::kLast), "");
  EXPECT_STREQ(code({1}, LogitsRows::kNone), "invalid_argument");
}

}  // namespace
}  // namespace quern
