#include "engine/step_pace.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(StepPace, PromptsGetWhatTheRatioLeaves) {
  StepPace pace(2.0);
  EXPECT_EQ(pace.prefill_tokens_max(0, 9), 0) << "nobody decodes: no limit";
  EXPECT_EQ(pace.prefill_tokens_max(8, 0), 24) << "nothing is known yet: decodes are taken for 16 tokens of a prompt";
  EXPECT_GT(pace.prefill_tokens_max(1, 31), 512) << "a crowd that comes to a fresh server does not trickle in";
  pace.record({.decodes = 8}, 0.020);
  pace.record({.prompts = 500}, 0.250);  // 0.5 ms a token
  EXPECT_EQ(pace.prefill_tokens_max(8, 0), 72) << "2 * 20 ms are 80 tokens, 8 of which decode";
  EXPECT_EQ(pace.prefill_tokens_max(6, 0), 74) << "the same class of sizes";
  EXPECT_EQ(pace.prefill_tokens_max(8, 2), 76) << "2 more would take 1 ms";
  EXPECT_EQ(pace.prefill_tokens_max(8, 8), 376) << "one runs for each that comes: four times longer";
  EXPECT_EQ(pace.prefill_tokens_max(8, 0, 30), 42) << "guesses take part of it";
  EXPECT_EQ(pace.prefill_tokens_max(200, 0), 8) << "a prompt always moves on";
}

TEST(StepPace, StreamsThatGuessHaveThePaceOfTheirLongerSteps) {
  StepPace pace(2.0);
  pace.record({.decodes = 8}, 0.020);
  pace.record({.prompts = 500}, 0.250);
  for (int i = 0; i < 60; ++i) pace.record({.decodes = 8, .guesses = 50}, 0.050);
  EXPECT_NEAR(pace.decode_seconds(8), 0.020, 1e-9) << "guesses are no part of what a decode takes";
  EXPECT_NEAR(pace.prefill_tokens_max(8, 0), 192, 1) << "2 * 50 ms are 200 tokens, 8 of which decode";
  pace.record({.decodes = 8, .guesses = 50}, 10);
  EXPECT_LT(pace.prefill_tokens_max(8, 0), 250) << "one step that was held up";
}

TEST(StepPace, FollowsChangesAndIgnoresSmallMixedSteps) {
  StepPace pace(2.0);
  pace.record({.decodes = 1}, 0.010);
  pace.record({.decodes = 1, .prompts = 4}, 10.0);
  EXPECT_EQ(pace.token_seconds(), 0);
  for (int i = 0; i < 60; ++i) pace.record({.decodes = 1}, 0.020);
  EXPECT_NEAR(pace.decode_seconds(1), 0.020, 1e-6);
  EXPECT_NEAR(pace.decode_seconds(30), 0.020, 1e-6) << "the nearest that is known";
}

TEST(StepPace, GuessesCostWhatLargerStepsTakeLonger) {
  StepPace pace(2.0);
  EXPECT_EQ(pace.guess_cost(4), 0.15) << "nothing is known yet";
  pace.record({.prompts = 100}, 0.200);
  pace.record({.decodes = 4}, 0.020);
  EXPECT_NEAR(pace.guess_cost(4), 0.4, 1e-9) << "2 ms beside 5 ms for each, as a prompt's token";
  pace.record({.decodes = 4, .guesses = 20}, 0.025);
  EXPECT_NEAR(pace.guess_cost(4), 0.05, 1e-9) << "0.25 ms beside 5 ms";
  pace.record({.decodes = 4, .guesses = 4}, 0.040);
  EXPECT_NEAR(pace.guess_cost(4), 1.0, 1e-9) << "the next size counts";
  EXPECT_GE(pace.guess_cost(8), 0) << "a larger step that was faster";
  EXPECT_EQ(pace.guess_cost(100), pace.token_seconds() * 100 / 0.025) << "not measured itself: as a prompt's token";
}

TEST(StepPace, ZeroMeansNoLimit) {
  StepPace pace(0);
  pace.record({.decodes = 4}, 0.01);
  pace.record({.decodes = 4, .prompts = 96}, 0.1);
  EXPECT_EQ(pace.prefill_tokens_max(4, 0), 0);
}

}  // namespace
}  // namespace quern
