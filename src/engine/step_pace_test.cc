#include "engine/step_pace.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(StepPace, PromptsGetWhatTheRatioLeaves) {
  StepPace pace(2.0);
  EXPECT_EQ(pace.prefill_tokens_max(0, 9), 0) << "nobody decodes: no limit";
  EXPECT_EQ(pace.prefill_tokens_max(8, 0), 24) << "nothing is known yet: decodes are taken for 16 tokens of a prompt";
  EXPECT_GT(pace.prefill_tokens_max(1, 31), 512) << "a crowd that comes to a fresh server does not trickle in";
  pace.record(8, 8, 0.020);
  pace.record(0, 500, 0.250);  // 0.5 ms a token
  EXPECT_EQ(pace.prefill_tokens_max(8, 0), 72) << "2 * 20 ms are 80 tokens, 8 of which decode";
  EXPECT_EQ(pace.prefill_tokens_max(6, 0), 74) << "the same class of sizes";
  EXPECT_EQ(pace.prefill_tokens_max(8, 2), 76) << "2 more would take 1 ms";
  EXPECT_EQ(pace.prefill_tokens_max(8, 8), 376) << "one runs for each that comes: four times longer";
  EXPECT_EQ(pace.prefill_tokens_max(200, 0), 16) << "a prompt always moves on";
}

TEST(StepPace, FollowsChangesAndIgnoresSmallMixedSteps) {
  StepPace pace(2.0);
  pace.record(1, 1, 0.010);
  pace.record(1, 5, 10.0);
  EXPECT_EQ(pace.token_seconds(), 0);
  for (int i = 0; i < 60; ++i) pace.record(1, 1, 0.020);
  EXPECT_NEAR(pace.decode_seconds(1), 0.020, 1e-6);
  EXPECT_NEAR(pace.decode_seconds(30), 0.020, 1e-6) << "the nearest that is known";
}

TEST(StepPace, ZeroMeansNoLimit) {
  StepPace pace(0);
  pace.record(4, 4, 0.01);
  pace.record(4, 100, 0.1);
  EXPECT_EQ(pace.prefill_tokens_max(4, 0), 0);
}

}  // namespace
}  // namespace quern
