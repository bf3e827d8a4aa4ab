#include "server/openai/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace quern::openai {
namespace {

// A language of three tokens in which the likeliest first token leads nowhere good; 2 ends a text.
std::vector<std::pair<int32_t, float>> next_of(const std::vector<int32_t>& ids) {
  const auto logs = [](double a, double b, double c) {
    std::vector<std::pair<int32_t, float>> list{
        {0, float(std::log(a))}, {1, float(std::log(b))}, {2, float(std::log(c))}};
    std::ranges::stable_sort(list, [](const auto& x, const auto& y) { return x.second > y.second; });
    return list;
  };
  if (ids.size() == 1) return logs(0.5, 0.45, 0.05);
  if (ids[1] == 0) return logs(0.35, 0.35, 0.3);
  return logs(0.05, 0.9, 0.05);
}

std::vector<BeamSearch::Beam> search(const BeamOptions& options) {
  BeamSearch beams({7}, options);
  while (!beams.done()) {
    std::vector<std::vector<std::pair<int32_t, float>>> next;
    for (const Request& request : beams.requests({})) {
      EXPECT_EQ(request.top_logprobs, 2 * options.width);
      next.push_back(next_of(request.prompt_ids));
    }
    beams.take(next);
  }
  return beams.best();
}

TEST(BeamSearch, FindsWhatGreedyMisses) {
  const auto greedy = search({.width = 1, .max_tokens = 3, .end_ids = {2}});
  EXPECT_EQ(greedy[0].ids, (std::vector<int32_t>{7, 0, 0, 0}));
  const auto two = search({.width = 2, .max_tokens = 3, .end_ids = {2}});
  EXPECT_EQ(two[0].ids, (std::vector<int32_t>{7, 1, 1, 1}));
  EXPECT_NEAR(two[0].logprob, std::log(0.45 * 0.9 * 0.9), 1e-5);
}

TEST(BeamSearch, EndedBeamsCompeteByLength) {
  // Without a penalty for length the early end, 0.05, beats longer texts of 0.36 only if length counts for nothing.
  const auto flat = search({.width = 8, .length_penalty = 0, .max_tokens = 2, .end_ids = {2}});
  EXPECT_TRUE(std::ranges::is_sorted(flat, std::greater(), &BeamSearch::Beam::logprob));
  const auto ended = std::ranges::find_if(flat, [](const auto& beam) { return beam.ended; });
  ASSERT_NE(ended, flat.end());
  EXPECT_EQ(ended->ids.back(), 2);
  const auto all_end = search({.width = 2, .max_tokens = 5, .end_ids = {0, 1, 2}});
  EXPECT_EQ(all_end.size(), 2u) << "no beam lives, the search ends";
  EXPECT_EQ(all_end[0].ids, (std::vector<int32_t>{7, 0}));
}

}  // namespace
}  // namespace quern::openai
