#include "engine/throughput.h"

#include <gtest/gtest.h>

#include "engine/fake_model.h"

namespace quern {
namespace {

TEST(Throughput, CountsTokensAndSteps) {
  auto fake = fake::make_runner({.max_num_batched_tokens = 32, .max_logits_rows = 8});
  fake.model->script = [](std::span<const int32_t>) { return 2; };  // the end token, which is ignored
  const std::vector<ThroughputCase> cases{{.n_prompt = 100}, {.n_gen = 40}, {.n_gen = 17, .batch = 8}};
  auto meter = std::move(*ThroughputMeter::create(*fake.runner, cases));
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto prompt = meter.run(cases[0]).value();
    EXPECT_EQ(prompt.tokens, 100);
    EXPECT_EQ(prompt.steps, 4) << "100 tokens, 32 a step, and no prefix of the run before";
    const auto alone = meter.run(cases[1]).value();
    EXPECT_EQ(alone.tokens, 40);
    EXPECT_EQ(alone.steps, 40);
    const auto together = meter.run(cases[2]).value();
    EXPECT_EQ(together.tokens, 8 * 17);
    EXPECT_EQ(together.steps, 17) << "all streams in every step";
    EXPECT_GT(together.seconds, 0.0);
  }
}

TEST(Throughput, RefusesWhatDoesNotFit) {
  auto fake = fake::make_runner({.max_num_batched_tokens = 32, .max_logits_rows = 8});
  const auto message = [&](const ThroughputCase& of) {
    const auto meter = ThroughputMeter::create(*fake.runner, {of});
    EXPECT_FALSE(meter);
    EXPECT_EQ(meter.error().code, ErrorCode::kInvalidArgument);
    return meter.error().message;
  };
  EXPECT_TRUE(message({.n_prompt = -1}).starts_with("n-prompt:"));
  EXPECT_TRUE(message({.n_gen = -5}).starts_with("n-gen:"));
  EXPECT_TRUE(message({.n_prompt = 255}).starts_with("n-prompt:"));
  EXPECT_TRUE(message({.n_gen = 255}).starts_with("n-gen:"));
  EXPECT_TRUE(message({.n_gen = 1, .batch = 0}).starts_with("batch:"));
  EXPECT_TRUE(message({.n_gen = 1, .batch = 9}).starts_with("batch:"));
  EXPECT_TRUE(ThroughputMeter::create(*fake.runner, {{.n_prompt = 254}, {.n_gen = 254, .batch = 8}}));
}

TEST(Throughput, AFailedForwardIsAnError) {
  auto fake = fake::make_runner({});
  auto meter = std::move(*ThroughputMeter::create(*fake.runner, {{.n_prompt = 10}}));
  fake.model->fail = true;
  EXPECT_FALSE(meter.run({.n_prompt = 10}));
}

TEST(Throughput, Summary) {
  const DecodeCost cost{.weight_bytes = 1'000'000'000, .macs = 3'000'000'000, .logits_macs = 1'000'000'000};
  const auto decode = summarize({.n_gen = 10, .batch = 4}, {{40, 10, 2.0}, {40, 10, 1.0}}, cost);
  EXPECT_DOUBLE_EQ(decode.mean_tokens_per_second, 30);
  EXPECT_DOUBLE_EQ(decode.stddev_tokens_per_second, std::sqrt(200.0));
  EXPECT_DOUBLE_EQ(decode.gbytes_per_second, 20 / 3.0);
  EXPECT_DOUBLE_EQ(decode.gmacs_per_second, 80 * 3 / 3.0);
  const auto prompt = summarize({.n_prompt = 100}, {{100, 2, 4.0}}, cost);
  EXPECT_DOUBLE_EQ(prompt.stddev_tokens_per_second, 0);
  EXPECT_DOUBLE_EQ(prompt.gbytes_per_second, 0.5);
  EXPECT_DOUBLE_EQ(prompt.gmacs_per_second, (100 * 2 + 1) / 4.0);
}

}  // namespace
}  // namespace quern
