#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "sample/sampler_testing.h"

namespace quern {
namespace {

using testing::kInf;
using testing::kNaN;

using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;
using testing::random_logits;

SampledToken sample(Sampler& sampler, Logits logits, const Ids& prompt, const Ids& output, int64_t position) {
  return sampler.sample(logits, prompt, output, position).value();
}

// ---- The plain definition: sort everything, in double, one filter after the other. ----

std::map<int32_t, double> normalized(const std::map<int32_t, double>& weights) {
  double total = 0;
  for (const auto& [id, weight] : weights) total += weight;
  std::map<int32_t, double> result;
  for (const auto& [id, weight] : weights) result[id] = weight / total;
  return result;
}

// Keeps ids in the order of `rank` (ties: lower id) until their mass reaches p.
template <class Rank>
std::map<int32_t, double> until_mass(const std::map<int32_t, double>& distribution, double p, Rank rank) {
  Ids ids;
  for (const auto& [id, probability] : distribution) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
  std::map<int32_t, double> kept;
  double mass = 0;
  for (size_t i = 0; i < ids.size() && mass < p; ++i) {
    kept[ids[i]] = distribution.at(ids[i]);
    mass += distribution.at(ids[i]);
  }
  return normalized(kept);
}

std::map<int32_t, double> reference(const SamplingParams& params, const Logits& logits, const Ids& prompt,
                                    const Ids& output) {
  std::vector<double> z(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.logit_bias) z[static_cast<size_t>(id)] += static_cast<double>(bias);
  for (int32_t id = 0; id < static_cast<int32_t>(z.size()); ++id) {
    const auto times = std::count(output.begin(), output.end(), id);
    double& x = z[static_cast<size_t>(id)];
    if (times > 0 || std::count(prompt.begin(), prompt.end(), id) > 0) {
      x = x > 0 ? x / static_cast<double>(params.repetition_penalty)
                : x * static_cast<double>(params.repetition_penalty);
    }
    x -= static_cast<double>(params.frequency_penalty) * static_cast<double>(times);
    if (times > 0) x -= static_cast<double>(params.presence_penalty);
  }
  std::map<int32_t, double> p;
  const double max = *std::max_element(z.begin(), z.end());
  for (size_t i = 0; i < z.size(); ++i) {
    p[static_cast<int32_t>(i)] = std::exp((z[i] - max) / static_cast<double>(params.temperature));
  }
  p = normalized(p);
  if (params.top_k > 0) {
    auto by_count = p;
    for (auto& [id, one] : by_count) one = 1.0;
    const auto kept = until_mass(by_count, params.top_k, [&](int32_t id) { return -p.at(id); });
    std::erase_if(p, [&](const auto& entry) { return !kept.contains(entry.first); });
    p = normalized(p);
  }
  if (params.typical_p < 1) {
    double entropy = 0;
    for (const auto& [id, q] : p) entropy -= q * std::log(q);
    p = until_mass(p, static_cast<double>(params.typical_p),
                   [&, q = p](int32_t id) { return std::abs(-std::log(q.at(id)) - entropy); });
  }
  if (params.top_p < 1) {
    p = until_mass(p, static_cast<double>(params.top_p), [q = p](int32_t id) { return -q.at(id); });
  }
  double largest = 0;
  for (const auto& [id, q] : p) largest = std::max(largest, q);
  std::erase_if(p, [&](const auto& entry) { return entry.second < static_cast<double>(params.min_p) * largest; });
  return normalized(p);
}

// Draws at many positions and compares the frequencies with the reference: support exactly, shape by chi-square.
void expect_follows_reference(SamplingParams params, const Logits& logits, const Ids& prompt = {},
                              const Ids& output = {}) {
  constexpr int kDraws = 6000;
  params.seed = 12345;
  const auto expected = reference(params, logits, prompt, output);
  auto sampler = make_sampler(params, static_cast<int32_t>(logits.size()));
  std::map<int32_t, int> counts;
  for (int position = 0; position < kDraws; ++position) {
    ++counts[sample(*sampler, logits, prompt, output, position).id];
  }
  double chi_square = 0, rare_expected = 0, rare_seen = 0;
  int bins = 0;
  for (const auto& [id, p] : expected) {
    const double mean = p * kDraws;
    if (mean < 8) {
      rare_expected += mean;
      rare_seen += counts[id];
    } else {
      chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
      ++bins;
    }
    counts.erase(id);
  }
  for (const auto& [id, seen] : counts) ADD_FAILURE() << "id " << id << " drawn " << seen << " times, must never be";
  if (rare_expected >= 8) {
    chi_square += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    ++bins;
  }
  const double freedom = std::max(1, bins - 1);
  EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom) + 4) << bins << " bins";
}

TEST(Sampler, PlainTemperature) {
  for (float temperature : {0.5f, 1.0f, 1.7f}) {
    expect_follows_reference({.temperature = temperature}, random_logits(1, 40));
    expect_follows_reference({.temperature = temperature}, random_logits(2, 700, 1.0f));
  }
}

TEST(Sampler, TopK) {
  for (int32_t k : {1, 2, 7, 39, 40, 1000}) expect_follows_reference({.top_k = k}, random_logits(3, 40));
  expect_follows_reference({.top_k = 150}, random_logits(4, 3000, 1.0f));
  for (int32_t off : {0, -1}) expect_follows_reference({.top_k = off}, random_logits(5, 30));
}

TEST(Sampler, TopP) {
  for (float p : {0.05f, 0.5f, 0.9f, 0.999f}) {
    expect_follows_reference({.top_p = p}, random_logits(6, 40));
    expect_follows_reference({.top_p = p}, random_logits(7, 1500, 0.7f));
  }
}

TEST(Sampler, MinP) {
  for (float p : {0.01f, 0.2f, 1.0f}) expect_follows_reference({.min_p = p}, random_logits(8, 60));
}

TEST(Sampler, TypicalP) {
  for (float p : {0.1f, 0.5f, 0.95f}) expect_follows_reference({.typical_p = p}, random_logits(9, 60));
}

TEST(Sampler, FiltersTogetherEachRenormalised) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::initializer_list<float> values) { return values.begin()[random() % values.size()]; };
    SamplingParams params{.temperature = pick({0.6f, 1.0f, 1.4f}),
                          .top_k = static_cast<int32_t>(pick({0, 5, 20, 60})),
                          .top_p = pick({1.0f, 0.6f, 0.93f}),
                          .min_p = pick({0.0f, 0.05f, 0.3f}),
                          .typical_p = pick({1.0f, 0.8f})};
    SCOPED_TRACE(seed);
    expect_follows_reference(params, random_logits(100 + seed, 80));
  }
}

TEST(Sampler, PenaltiesAndBias) {
  const Ids prompt{1, 2, 2, 5};
  const Ids output{2, 3, 3, 3, 9};
  const Logits logits = random_logits(10, 12, 1.0f);
  expect_follows_reference({.repetition_penalty = 1.8f}, logits, prompt, output);
  expect_follows_reference({.repetition_penalty = 0.6f}, logits, prompt, output);
  expect_follows_reference({.presence_penalty = 1.5f}, logits, prompt, output);
  expect_follows_reference({.presence_penalty = -2.0f}, logits, prompt, output);
  expect_follows_reference({.frequency_penalty = 0.7f}, logits, prompt, output);
  expect_follows_reference({.logit_bias = {{0, 3.0f}, {7, -100.0f}}}, logits, prompt, output);
  expect_follows_reference({.temperature = 0.8f,
                            .top_p = 0.9f,
                            .repetition_penalty = 1.3f,
                            .presence_penalty = 0.4f,
                            .frequency_penalty = 0.2f,
                            .logit_bias = {{2, 2.0f}, {4, 1.0f}}},
                           logits, prompt, output);
}

TEST(Sampler, PresenceAndFrequencyLookAtTheOutputOnly) {
  const Logits logits{1.0f, 0.9f, 0.0f};
  auto sampler = make_sampler({.temperature = 0, .presence_penalty = 1.0f, .frequency_penalty = 1.0f}, 3);
  EXPECT_EQ(sample(*sampler, logits, {0, 0, 0}, {}, 3).id, 0);
  EXPECT_EQ(sample(*sampler, logits, {}, {0}, 1).id, 1);
  auto repetition = make_sampler({.temperature = 0, .repetition_penalty = 2.0f}, 3);
  EXPECT_EQ(sample(*repetition, logits, {0}, {}, 1).id, 1);
  EXPECT_EQ(sample(*repetition, {-1.0f, -1.5f, -9.0f}, {0}, {}, 1).id, 1) << "a negative logit is multiplied";
}

TEST(Sampler, GreedyTakesTheLargestAndOfEqualsTheLowestId) {
  auto sampler = make_sampler({.temperature = 0}, 5);
  EXPECT_EQ(sample(*sampler, {0, 3, 1, 3, 3}, {}, {}, 0).id, 1);
  EXPECT_EQ(sample(*sampler, {0, 3, 1, 3, 4}, {}, {}, 0).id, 4);
  EXPECT_EQ(sample(*sampler, {2, 2, 2, 2, 2}, {}, {}, 0).id, 0);
  auto biased = make_sampler({.temperature = 0, .logit_bias = {{2, 5.0f}}}, 5);
  EXPECT_EQ(sample(*biased, {0, 3, 1, 3, 3}, {}, {}, 0).id, 2);
}

TEST(Sampler, TiesAtTheEdgeOfAFilterKeepLowIds) {
  const Logits equal(400, 1.0f);
  for (const SamplingParams& params :
       {SamplingParams{.top_k = 3}, SamplingParams{.top_p = 3.0f / 400}, SamplingParams{.typical_p = 3.0f / 400}}) {
    auto sampler = make_sampler(params, 400);
    std::map<int32_t, int> counts;
    for (int position = 0; position < 200; ++position) ++counts[sample(*sampler, equal, {}, {}, position).id];
    EXPECT_LE(counts.rbegin()->first, 3);
    EXPECT_GE(counts.size(), 3u);
  }
}

TEST(Sampler, SameSeedAndPositionSameTokenInAnyOrderOfCalls) {
  const SamplingParams params{.temperature = 1.3f, .top_p = 0.95f, .repetition_penalty = 1.1f, .seed = 99};
  const Logits logits = random_logits(11, 500);
  const Ids prompt{3, 4, 5};
  auto first = make_sampler(params, 500);
  std::vector<int32_t> forward, backward;
  for (int position = 0; position < 50; ++position) {
    forward.push_back(sample(*first, logits, prompt, {7}, position).id);
  }
  auto second = make_sampler(params, 500);
  for (int position = 49; position >= 0; --position) {
    sample(*second, random_logits(12, 500), {1}, {2, 2, 400}, position + 1000);
    backward.push_back(sample(*second, logits, prompt, {7}, position).id);
  }
  std::ranges::reverse(backward);
  EXPECT_EQ(forward, backward);
  EXPECT_GT(std::ranges::count_if(forward, [&](int32_t id) { return id != forward[0]; }), 0);

  auto other_params = params;
  other_params.seed = 100;
  auto other = make_sampler(other_params, 500);
  int equal = 0;
  for (int position = 0; position < 50; ++position) {
    equal += sample(*other, logits, prompt, {7}, position).id == forward[static_cast<size_t>(position)];
  }
  EXPECT_LT(equal, 40);
}

TEST(Sampler, LogprobIsOfTheRawLogits) {
  const Logits logits = random_logits(13, 300);
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.3f}, SamplingParams{.top_k = 5},
        SamplingParams{.repetition_penalty = 3.0f, .logit_bias = {{5, 50.0f}}},
        SamplingParams{.temperature = 0, .presence_penalty = -2.0f, .logit_bias = {{5, 50.0f}}}}) {
    auto sampler = make_sampler(params, 300);
    for (int position = 0; position < 20; ++position) {
      const SampledToken token = sample(*sampler, logits, {5, 6}, {5, 9}, position);
      const double expected = static_cast<double>(logits[static_cast<size_t>(token.id)]) - std::log(sum);
      EXPECT_NEAR(static_cast<double>(token.logprob), expected, 2e-6);
    }
  }
}

TEST(Sampler, NaNCountsAsMasked) {
  const Logits logits{kNaN, -kInf, 1.0f, kNaN, 0.5f};
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0}, SamplingParams{}, SamplingParams{.top_k = 4}, SamplingParams{.top_p = 0.99f},
        SamplingParams{.min_p = 0.01f}, SamplingParams{.typical_p = 0.99f},
        SamplingParams{.repetition_penalty = 0.1f, .logit_bias = {{0, 100.0f}, {1, 100.0f}}}}) {
    auto sampler = make_sampler(params, 5);
    for (int position = 0; position < 100; ++position) {
      const SampledToken token = sample(*sampler, logits, {0, 1}, {1, 3}, position);
      EXPECT_TRUE(token.id == 2 || token.id == 4) << token.id;
      EXPECT_TRUE(std::isfinite(token.logprob));
    }
  }
}

TEST(Sampler, NothingFiniteIsAnError) {
  for (float value : {kNaN, -kInf}) {
    for (float temperature : {0.0f, 1.0f}) {
      auto sampler = make_sampler({.temperature = temperature}, 33);
      Logits logits(33, value);
      const auto token = sampler->sample(logits, {}, {}, 17);
      ASSERT_FALSE(token);
      EXPECT_EQ(token.error().code, ErrorCode::kInternal);
      EXPECT_NE(token.error().message.find("17"), std::string::npos);
    }
  }
}

TEST(Sampler, ExtremeButLegalValues) {
  const float largest = std::numeric_limits<float>::max();
  auto sampler = make_sampler({.temperature = 1e-4f, .repetition_penalty = 1e30f, .logit_bias = {{0, -largest}}}, 3);
  EXPECT_EQ(sample(*sampler, {-largest, -largest, -1.0f}, {0, 2}, {}, 0).id, 2) << "-1e30 is above the lowest float";
  auto hot = make_sampler({.temperature = largest}, 2);
  std::map<int32_t, int> counts;
  for (int position = 0; position < 1000; ++position) ++counts[sample(*hot, {0.0f, 50.0f}, {}, {}, position).id];
  EXPECT_NEAR(counts[0], 500, 80);
  auto plain = make_sampler({}, 3);
  EXPECT_EQ(sample(*plain, {0.0f, kInf, 1.0f}, {}, {}, 0).id, 1);
  EXPECT_EQ(sample(*make_sampler({}, 1), {-5.0f}, {}, {}, 0).id, 0);
}

TEST(SamplingParams, DefaultsAndEdgesAreValid) {
  EXPECT_TRUE(validate({}, 10));
  EXPECT_TRUE(validate({.temperature = 0,
                        .top_k = 99,
                        .min_p = 1.0f,
                        .presence_penalty = -2,
                        .frequency_penalty = 2,
                        .logit_bias = {{0, -100.0f}, {9, 100.0f}}},
                       10));
}

TEST(SamplingParams, EveryBadValueIsRefusedByItsName) {
  using Set = void (*)(SamplingParams&, float);
  const struct {
    const char* field;
    Set set;
    std::vector<float> bad;
  } cases[] = {
      {"temperature", [](SamplingParams& p, float v) { p.temperature = v; }, {-0.1f, kNaN, kInf, -kInf}},
      {"top_p", [](SamplingParams& p, float v) { p.top_p = v; }, {0, -1, 1.01f, kNaN, kInf, -kInf}},
      {"min_p", [](SamplingParams& p, float v) { p.min_p = v; }, {-0.01f, 1.01f, kNaN, kInf, -kInf}},
      {"typical_p", [](SamplingParams& p, float v) { p.typical_p = v; }, {0, -1, 1.5f, kNaN, kInf, -kInf}},
      {"repetition_penalty", [](SamplingParams& p, float v) { p.repetition_penalty = v; }, {0, -1, kNaN, kInf, -kInf}},
      {"presence_penalty",
       [](SamplingParams& p, float v) { p.presence_penalty = v; },
       {-2.1f, 2.1f, kNaN, kInf, -kInf}},
      {"frequency_penalty", [](SamplingParams& p, float v) { p.frequency_penalty = v; }, {-3, 3, kNaN, kInf, -kInf}},
      {"top_k", [](SamplingParams& p, float v) { p.top_k = static_cast<int32_t>(v); }, {-2, -1000}},
      {"logit_bias", [](SamplingParams& p, float v) { p.logit_bias = {{1, 0.0f}, {2, v}}; }, {kNaN, kInf, -kInf}},
      {"logit_bias",
       [](SamplingParams& p, float v) { p.logit_bias = {{static_cast<int32_t>(v), 1.0f}}; },
       {-1, 10, 11}},
  };
  for (const auto& c : cases) {
    for (float value : c.bad) {
      SamplingParams params;
      c.set(params, value);
      const Status status = validate(params, 10);
      ASSERT_FALSE(status) << c.field << " " << value;
      EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
      EXPECT_TRUE(status.error().message.starts_with(std::string(c.field) + ":")) << status.error().message;
    }
  }
}

}  // namespace
}  // namespace quern
