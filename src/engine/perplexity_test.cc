#include "engine/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/fake_model.h"
#include "engine/sequence_runner.h"

namespace quern {
namespace {

std::vector<int32_t> text_ids(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>((i * 7 + i / 5) % 60) + 3;
  return ids;
}

// Each row alone, in double, from the model's own logits.
std::vector<std::vector<double>> log_probabilities(fake::FakeRunner& fake, std::span<const int32_t> window) {
  auto sequences = std::move(
      *SequenceRunner::create(*fake.runner, {.num_sequences = 1, .tokens_max = static_cast<int32_t>(window.size())}));
  std::vector<std::vector<double>> rows;
  for (int32_t id : window) {
    const SequenceRunner::Append part{.ids = std::span(&id, 1), .rows = LogitsRows::kAll};
    const auto logits = sequences.append(std::span(&part, 1)).value();
    double sum = 0;
    for (float logit : logits) sum += std::exp(static_cast<double>(logit));
    auto& row = rows.emplace_back();
    for (float logit : logits) row.push_back(static_cast<double>(logit) - std::log(sum));
  }
  return rows;
}

TEST(Perplexity, ScoresTheSecondHalfOfEachWindow) {
  const auto ids = text_ids(70);  // two windows of 32 and a rest
  for (int32_t rows_max : {1, 5, 16}) {
    auto fake = fake::make_runner({.max_num_batched_tokens = 9, .max_logits_rows = rows_max});
    const auto result = measure_perplexity(*fake.runner, nullptr, ids, {.context = 32, .bos_id = 1}, nullptr).value();
    double nll = 0, squared = 0;
    for (size_t chunk = 0; chunk < 2; ++chunk) {
      auto window = std::vector<int32_t>(ids.begin() + 32 * static_cast<ptrdiff_t>(chunk),
                                         ids.begin() + 32 * static_cast<ptrdiff_t>(chunk + 1));
      window[0] = 1;
      const auto rows = log_probabilities(fake, window);
      for (size_t i = 16; i < 31; ++i) {
        const double one = -rows[i][static_cast<size_t>(window[i + 1])];
        nll += one;
        squared += one * one;
      }
    }
    EXPECT_EQ(result.tokens, 30);
    EXPECT_EQ(result.chunks, 2);
    EXPECT_NEAR(result.nll, nll / 30, 1e-5);
    EXPECT_NEAR(result.perplexity(), std::exp(nll / 30), 1e-3);
    const double mean = nll / 30;
    EXPECT_NEAR(result.standard_error, std::sqrt((squared / 30 - mean * mean) / 29), 1e-5);
    EXPECT_FALSE(result.divergence);
  }
}

TEST(Perplexity, ChunksMaxAndProgress) {
  auto fake = fake::make_runner({});
  std::vector<int32_t> seen;
  const auto result = measure_perplexity(*fake.runner, nullptr, text_ids(100), {.context = 16, .chunks_max = 3},
                                         [&](const PerplexityResult& so_far, int32_t total) {
                                           EXPECT_EQ(total, 3);
                                           seen.push_back(so_far.chunks);
                                         });
  ASSERT_TRUE(result);
  EXPECT_EQ(seen, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(result->tokens, 3 * 7);
}

TEST(Perplexity, DivergenceFromAReference) {
  const auto ids = text_ids(32);
  auto model = fake::make_runner({});
  auto same = fake::make_runner({});
  const auto equal = measure_perplexity(*model.runner, same.runner.get(), ids, {.context = 32}, nullptr).value();
  ASSERT_TRUE(equal.divergence);
  EXPECT_EQ(equal.divergence->mean, 0.0);
  EXPECT_EQ(equal.divergence->top1_agreement, 1.0);

  auto other = fake::make_runner({});
  // Of every other row the reference is sure of token 5.
  other.model->script = [](std::span<const int32_t> context) { return context.size() % 2 == 0 ? 5 : -1; };
  const auto result = measure_perplexity(*model.runner, other.runner.get(), ids, {.context = 32}, nullptr).value();
  const auto q = log_probabilities(model, ids);
  const auto p = log_probabilities(other, ids);
  double mean = 0, max = 0, agree = 0;
  for (size_t i = 16; i < 31; ++i) {
    double kl = 0;
    for (size_t id = 0; id < p[i].size(); ++id) kl += std::exp(p[i][id]) * (p[i][id] - q[i][id]);
    mean += kl / 15;
    max = std::max(max, kl);
    agree += std::ranges::max_element(p[i]) - p[i].begin() == std::ranges::max_element(q[i]) - q[i].begin();
  }
  EXPECT_GT(mean, 0.5);
  EXPECT_NEAR(result.divergence->mean, mean, 1e-5);
  EXPECT_NEAR(result.divergence->max, max, 1e-5);
  EXPECT_NEAR(result.divergence->top1_agreement, agree / 15, 1e-12);
}

TEST(Perplexity, RefusesWhatCannotBeMeasured) {
  auto fake = fake::make_runner({});
  const auto message = [&](size_t tokens, PerplexityOptions options) {
    const auto result = measure_perplexity(*fake.runner, nullptr, text_ids(tokens), options, nullptr);
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    return result.error().message;
  };
  EXPECT_NE(message(31, {.context = 32}).find("31 tokens"), std::string::npos);
  EXPECT_NE(message(32, {.context = 3}).find("ctx: 3"), std::string::npos);
  EXPECT_NE(message(1000, {.context = 512}).find("context of 256"), std::string::npos);
  auto bad = text_ids(32);
  bad[20] = 64;
  const auto result = measure_perplexity(*fake.runner, nullptr, bad, {.context = 32}, nullptr);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("64"), std::string::npos);
}

TEST(Perplexity, NotANumberIsAnError) {
  auto fake = fake::make_runner({});
  const auto ids = text_ids(32);
  fake.model->nan_after = ids[20];
  const auto result = measure_perplexity(*fake.runner, nullptr, ids, {.context = 32}, nullptr);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace quern
