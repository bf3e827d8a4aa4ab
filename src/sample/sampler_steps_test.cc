// The steps that llama.cpp and vLLM have beyond the classical ones, each against its plain definition: sort everything,
// in double, one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "sample/sampler.h"
#include "sample/sampler_testing.h"

namespace quern {
namespace {

using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;
using testing::random_logits;
struct Token {
  int32_t id;
  double p;
};
using Tokens = std::vector<Token>;

int32_t sampled_id(Sampler& sampler, Logits logits, const Ids& prompt, const Ids& output, int64_t position) {
  return sampler.sample(logits, prompt, output, position).value().id;
}

void normalize(Tokens& tokens) {
  double total = 0;
  for (const Token& token : tokens) total += token.p;
  for (Token& token : tokens) token.p /= total;
}

Tokens softmax(const Logits& logits, double temperature = 1) {
  Tokens tokens;
  const double max = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i) {
    tokens.push_back({static_cast<int32_t>(i), std::exp((logits[i] - max) / temperature)});
  }
  normalize(tokens);
  return tokens;
}

void sort_down(Tokens& tokens) {
  std::ranges::stable_sort(tokens, [](const Token& a, const Token& b) { return a.p > b.p; });
}

int32_t draw_in_order(const Tokens& tokens, double uniform) {
  double sum = 0;
  for (const Token& token : tokens) {
    sum += token.p;
    if (sum > uniform) return token.id;
  }
  return tokens.back().id;
}
// The draw goes by ascending id, unless top_p has put the likeliest first.
int32_t draw(Tokens tokens, double uniform) {
  std::ranges::sort(tokens, {}, &Token::id);
  return draw_in_order(tokens, uniform);
}

TEST(SamplerSteps, TopNSigmaKeepsWhatIsNearTheLargest) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Logits logits = random_logits(seed, 500);
    SamplingParams params{
        .temperature = 1.5f, .top_n_sigma = 0.5f + 0.1f * static_cast<float>(seed % 10), .seed = seed};
    double mean = 0, square = 0;
    for (float logit : logits) mean += logit / 500.0;
    for (float logit : logits) square += (logit - mean) * (logit - mean) / 500.0;
    const double lowest = *std::max_element(logits.begin(), logits.end()) - params.top_n_sigma * std::sqrt(square);
    Tokens kept = softmax(logits, 1.5);
    std::erase_if(kept, [&](const Token& token) { return logits[static_cast<size_t>(token.id)] < lowest; });
    normalize(kept);
    auto sampler = make_sampler(params, 500);
    for (int64_t position = 0; position < 10; ++position) {
      EXPECT_EQ(sampled_id(*sampler, logits, {}, {}, position), draw(kept, uniform_at(seed, uint64_t(position))));
    }
  }
}

TEST(SamplerSteps, XtcDropsAllButTheLeastOfTheLikely) {
  int dropped = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Logits logits = random_logits(seed, 64, 3.0f);
    const SamplingParams params{.xtc_probability = 0.5f, .xtc_threshold = 0.08f, .seed = seed};
    auto sampler = make_sampler(params, 64);
    for (uint64_t position = 0; position < 10; ++position) {
      Tokens tokens = softmax(logits);
      sort_down(tokens);
      size_t likely = 0;
      while (likely < tokens.size() && tokens[likely].p >= 0.08) ++likely;
      if (uniform_at(seed, position, 1) < 0.5 && likely >= 2) {
        tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(likely - 1));
        normalize(tokens);
        ++dropped;
      }
      EXPECT_EQ(sampled_id(*sampler, logits, {}, {}, static_cast<int64_t>(position)),
                draw(tokens, uniform_at(seed, position)));
    }
  }
  EXPECT_GT(dropped, 100);
}

// The loss of `next`, by trying every earlier place where it stands.
double dry_loss(const Ids& context, int32_t next, const DryParams& params) {
  const auto n = static_cast<int32_t>(context.size());
  const auto last_n = params.penalty_last_n < 0 ? n : std::min(n, params.penalty_last_n);
  const Ids window(context.end() - last_n, context.end());
  int32_t limit = last_n;
  for (int32_t back = 0; back < last_n && params.breakers; ++back) {
    for (const auto& breaker : params.breakers->breakers) {
      const auto at = last_n - 1 - back;
      const auto tail = static_cast<int32_t>(breaker.tail.size());
      if (window[static_cast<size_t>(at)] != breaker.head || tail > back) continue;
      if (std::equal(breaker.tail.begin(), breaker.tail.end(), window.begin() + at + 1)) {
        limit = std::min(limit, back - tail);
      }
    }
    if (limit < last_n) break;
  }
  int32_t longest = 0;
  for (int32_t place = 1; place < last_n; ++place) {
    if (window[static_cast<size_t>(place)] != next) continue;
    int32_t length = 0;
    while (length < place &&
           window[static_cast<size_t>(place - 1 - length)] == window[static_cast<size_t>(last_n - 1 - length)]) {
      ++length;
    }
    longest = std::max(longest, std::min(length, limit));
  }
  if (longest < params.allowed_length || limit < params.allowed_length) return 0;
  return params.multiplier * std::pow(params.base, longest - params.allowed_length);
}

TEST(SamplerSteps, DryAgainstTheDefinition) {
  std::mt19937 random(1);
  int penalized = 0;
  for (int round = 0; round < 300; ++round) {
    Ids context(static_cast<size_t>(5 + round % 60));
    for (int32_t& id : context) id = static_cast<int32_t>(random() % 4);
    const size_t prompt_size = random() % context.size();
    const Ids prompt(context.begin(), context.begin() + static_cast<ptrdiff_t>(prompt_size));
    const Ids output(context.begin() + static_cast<ptrdiff_t>(prompt_size), context.end());
    auto breakers = std::make_shared<DryBreakers>();
    if (round % 3 == 1) breakers->breakers = {{3, {}}};
    if (round % 3 == 2) breakers->breakers = {{2, {1}}, {3, {0, 1}}};
    const DryParams params{.multiplier = 0.8f,
                           .base = 1.75f,
                           .allowed_length = 1 + round % 3,
                           .penalty_last_n = round % 5 == 0 ? 20 : -1,
                           .breakers = breakers};
    DryPenalty dry(params);
    std::map<int32_t, double> losses;
    for (const auto& [id, loss] : dry.compute(prompt, output)) losses[id] = loss;
    for (int32_t id = 0; id < 4; ++id) {
      const double expected = dry_loss(context, id, params);
      penalized += expected > 0;
      EXPECT_NEAR(losses.contains(id) ? losses[id] : 0.0, expected, 1e-4 * (1 + expected)) << "round " << round;
    }
  }
  EXPECT_GT(penalized, 100);
}

TEST(SamplerSteps, DryStopsALoop) {
  Logits logits(8, 0.0f);
  logits[3] = 2.0f;
  const Ids output{1, 2, 3, 1, 2, 3, 1, 2};
  SamplingParams params{.temperature = 0};
  EXPECT_EQ(sampled_id(*make_sampler(params, 8), logits, {}, output, 8), 3);
  params.dry.multiplier = 0.8f;
  EXPECT_NE(sampled_id(*make_sampler(params, 8), logits, {}, output, 8), 3);
}

TEST(SamplerSteps, MirostatTwoFollowsItsDefinition) {
  const float tau = 3, eta = 0.2f;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    auto sampler =
        make_sampler({.temperature = 0.9f, .mirostat = 2, .mirostat_tau = tau, .mirostat_eta = eta, .seed = seed}, 300);
    double mu = 2 * tau;
    for (uint64_t position = 0; position < 30; ++position) {
      const Logits logits = random_logits(seed * 100 + static_cast<uint32_t>(position), 300, 3.0f);
      Tokens tokens = softmax(logits, 0.9f);
      sort_down(tokens);
      size_t kept = 0;
      while (kept < tokens.size() && -std::log2(tokens[kept].p) <= mu) ++kept;
      tokens.resize(std::max<size_t>(kept, 1));
      normalize(tokens);
      const int32_t expected = draw(tokens, uniform_at(seed, position));
      ASSERT_EQ(sampled_id(*sampler, logits, {}, {}, static_cast<int64_t>(position)), expected)
          << seed << ' ' << position;
      mu -= eta * (-std::log2(std::ranges::find(tokens, expected, &Token::id)->p) - tau);
    }
  }
}

TEST(SamplerSteps, MirostatOneFollowsItsDefinition) {
  const float tau = 4, eta = 0.1f;
  constexpr size_t kVocab = 400;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    auto sampler = make_sampler({.mirostat = 1, .mirostat_tau = tau, .mirostat_eta = eta, .seed = seed}, kVocab);
    double mu = 2 * tau;
    for (uint64_t position = 0; position < 30; ++position) {
      const Logits logits = random_logits(seed * 100 + static_cast<uint32_t>(position), kVocab, 2.0f);
      Tokens tokens = softmax(logits);
      sort_down(tokens);
      double tb = 0, tt = 0;
      for (size_t i = 0; i < 99; ++i) {
        const double t = std::log(double(i + 2) / double(i + 1));
        tb += t * std::log(tokens[i].p / tokens[i + 1].p);
        tt += t * t;
      }
      const double s = tb / tt, epsilon = s - 1;
      const double k = std::pow(epsilon * std::pow(2.0, mu) / (1 - std::pow(double(kVocab), -epsilon)), 1 / s);
      tokens.resize(static_cast<size_t>(std::clamp(k, 1.0, double(kVocab))));
      normalize(tokens);
      const int32_t expected = draw(tokens, uniform_at(seed, position));
      ASSERT_EQ(sampled_id(*sampler, logits, {}, {}, static_cast<int64_t>(position)), expected)
          << seed << ' ' << position;
      mu -= eta * (-std::log2(std::ranges::find(tokens, expected, &Token::id)->p) - tau);
    }
  }
}

TEST(SamplerSteps, OrderIsTheCallers) {
  // After a high temperature top_p keeps more than before it.
  const Logits logits{5, 4, 3, 2, 1, 0};
  const auto kept = [&](const std::vector<std::string>& names) {
    std::map<int32_t, int> seen;
    SamplingParams params{.temperature = 4.0f, .top_p = 0.8f, .order = parse_sampler_order(names).value()};
    for (uint64_t seed = 0; seed < 400; ++seed) {
      params.seed = seed;
      ++seen[sampled_id(*make_sampler(params, 6), logits, {}, {}, 0)];
    }
    return seen.size();
  };
  EXPECT_EQ(kept({"top_p", "temperature"}), 2u);
  EXPECT_EQ(kept({"temperature", "top_p"}), 4u);
  EXPECT_EQ(kept({"temperature"}), 6u) << "what is not named is not applied";
  EXPECT_EQ(kept({"top_p"}), 2u);
}

TEST(SamplerSteps, TruncationsInAnyOrderAgreeWithTheDefinition) {
  std::mt19937 random(5);
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Logits logits = random_logits(seed, 200);
    SamplingParams params{.top_k = 20, .top_p = 0.7f, .min_p = 0.05f, .seed = seed};
    std::vector<std::string> names{"top_k", "top_p", "min_p"};
    std::ranges::shuffle(names, random);
    params.order = parse_sampler_order(names).value();
    Tokens tokens = softmax(logits);
    sort_down(tokens);
    for (const std::string& name : names) {
      size_t keep = 0;
      double mass = 0;
      if (name == "top_k") keep = 20;
      if (name == "top_p") {
        while (keep < tokens.size() && mass < 0.7f) mass += tokens[keep++].p;
      }
      if (name == "min_p") {
        while (keep < tokens.size() && tokens[keep].p >= 0.05f * tokens[0].p) ++keep;
      }
      tokens.resize(std::min(keep, tokens.size()));
      normalize(tokens);
    }
    EXPECT_EQ(sampled_id(*make_sampler(params, 200), logits, {}, {}, 3), draw_in_order(tokens, uniform_at(seed, 3)));
  }
}

TEST(SamplerSteps, RefusesUnknownAndRepeatedNames) {
  EXPECT_EQ(parse_sampler_order({"top_q"}).error().message.substr(0, 17), "samplers: 'top_q'");
  EXPECT_EQ(parse_sampler_order({"typ_p", "typical_p"}).error().message, "samplers: 'typical_p' is there twice");
}

TEST(SamplerSteps, MasksHoldForGreedyAndForDraws) {
  const Logits logits{9, 8, 7, 6, 5, 4};
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams allowed{.temperature = temperature, .allowed_token_ids = Ids{4, 5}};
    EXPECT_GE(sampled_id(*make_sampler(allowed, 6), logits, {}, {}, 0), 4);
    SamplingParams minimum{.temperature = temperature, .min_tokens = 2, .end_ids = {0}};
    EXPECT_NE(sampled_id(*make_sampler(minimum, 6), logits, {}, {3}, 1), 0);
    SamplingParams bad{.temperature = temperature, .bad_words = {{2, 0}, {1}}};
    const int32_t id = sampled_id(*make_sampler(bad, 6), logits, {}, {3, 2}, 2);
    EXPECT_TRUE(id != 0 && id != 1);
  }
  SamplingParams greedy{.temperature = 0, .bad_words = {{2, 0}}};
  EXPECT_EQ(sampled_id(*make_sampler(greedy, 6), logits, {}, {3}, 1), 0) << "only after its beginning";
  EXPECT_EQ(sampled_id(*make_sampler(greedy, 6), logits, {2}, {}, 1), 0) << "the prompt is not the answer";
  SamplingParams nothing{.allowed_token_ids = Ids{0}, .bad_words = {{0}}};
  Logits row = logits;
  EXPECT_FALSE(make_sampler(nothing, 6)->sample(row, {}, {}, 0));
}

TEST(SamplerSteps, LogprobIsOfTheRawLogits) {
  Logits logits = random_logits(3, 50);
  const Tokens raw = softmax(logits);
  SamplingParams params{.temperature = 0, .allowed_token_ids = Ids{7, 9}};
  params.logit_bias = {{9, 50.0f}};
  const SampledToken token = make_sampler(params, 50)->sample(logits, {}, {}, 0).value();
  EXPECT_EQ(token.id, 9);
  EXPECT_NEAR(token.logprob, std::log(raw[9].p), 1e-4);
}

}  // namespace
}  // namespace quern
