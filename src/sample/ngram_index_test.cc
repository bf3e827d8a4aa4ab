#include "sample/ngram_index.h"

#include <gtest/gtest.h>

#include <random>

#include "sample/draft_policy.h"

namespace quern {
namespace {

using Ids = std::vector<int32_t>;

NgramIndex index_of(const Ids& tokens) {
  NgramIndex index;
  for (int32_t token : tokens) index.append(token);
  return index;
}

Ids guess(const NgramIndex& index, const Ids& context, int32_t length_max, int32_t count) {
  Ids out;
  const auto match = index.find(context, length_max);
  if (match.length > 0) index.copy(match, count, out);
  return out;
}

TEST(NgramIndex, GoesOnWhereTheLongestMatchWentOn) {
  const Ids tokens{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  const NgramIndex index = index_of(tokens);
  EXPECT_EQ(index.find(tokens, 8).length, 3);
  EXPECT_EQ(guess(index, tokens, 8, 3), (Ids{4, 9, 2})) << "1 2 3 agrees longer than the later 2 3";
  EXPECT_EQ(guess(index, tokens, 2, 1), (Ids{5})) << "of equal ones the latest";
  EXPECT_TRUE(guess(index, {7, 8}, 8, 3).empty());
  EXPECT_TRUE(guess(index, {3}, 8, 3).empty());
  EXPECT_TRUE(guess(index_of({1, 2}), {1, 2}, 8, 3).empty()) << "nothing follows";
}

TEST(NgramIndex, ARepetitionIsContinued) {
  const Ids tokens{7, 1, 2, 3, 1, 2, 3};
  EXPECT_EQ(guess(index_of(tokens), tokens, 8, 7), (Ids{1, 2, 3, 1, 2, 3, 1}));
}

TEST(NgramIndex, AgreesWithAPlainSearch) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Ids tokens(static_cast<size_t>(2 + random() % 22));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 3);
    int32_t longest = 0, next = 0;
    for (size_t end = 1; end + 1 < tokens.size(); ++end) {
      int32_t length = 0;
      while (length < 5 && static_cast<size_t>(length) <= end &&
             tokens[end - static_cast<size_t>(length)] == tokens[tokens.size() - 1 - static_cast<size_t>(length)]) {
        ++length;
      }
      if (length >= 2 && length >= longest) longest = length, next = static_cast<int32_t>(end) + 1;
    }
    const auto match = index_of(tokens).find(tokens, 5);
    ASSERT_EQ(match.length, longest);
    if (longest > 0) {
      ASSERT_EQ(match.next, next);
    }
  }
}

TEST(DraftPolicy, GrowsWhileRightAndPausesWhileWrong) {
  DraftPolicy policy(16);
  EXPECT_EQ(policy.next_length(), 4);
  policy.record(4, 4, 0.1);
  EXPECT_EQ(policy.next_length(), 8);
  policy.record(8, 8, 0.1);
  EXPECT_EQ(policy.next_length(), 16);
  policy.record(16, 2, 0.1);
  EXPECT_EQ(policy.next_length(), 4);
  int tried = 0;
  for (int step = 0; step < 1000; ++step) {
    const int32_t length = policy.next_length();
    tried += length > 0;
    policy.record(length, 0, 0.2);
  }
  EXPECT_LT(tried, 60) << "what never helps is hardly tried";
  EXPECT_GT(tried, 3);
}

TEST(DraftPolicy, CostDecides) {
  DraftPolicy cheap(8), dear(8);
  int cheap_tries = 0, dear_tries = 0;
  for (int step = 0; step < 200; ++step) {
    const int32_t cheap_length = cheap.next_length(), dear_length = dear.next_length();
    cheap_tries += cheap_length > 0;
    dear_tries += dear_length > 0;
    cheap.record(cheap_length, std::min(cheap_length, 1), 0.05);
    dear.record(dear_length, std::min(dear_length, 1), 1.5);
  }
  EXPECT_EQ(cheap_tries, 200);
  EXPECT_LT(dear_tries, 50);
}

}  // namespace
}  // namespace quern
