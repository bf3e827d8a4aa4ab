// The serving core, step by step.
#include "engine/core_world.h"

namespace quern::testing {
namespace {

TEST(EngineCore, SameAnswersWhoeverSharesTheBatch) {
  std::vector<Answers> alone;
  for (const Request& request : mixed_requests()) {
    World world;
    const int64_t id = world.submit(request);
    world.run();
    alone.push_back(world.answers(id));
  }
  const WorldOptions settings[] = {
      {},
      {.enable_prefix_caching = false},
      {.budget = 1, .max_num_seqs = 3},
      {.budget = 7},
      {.budget = 33, .max_num_seqs = 2},
      {.budget = 64, .max_num_seqs = 8, .num_blocks = 9},
      {.budget = 16, .max_num_seqs = 8, .num_blocks = 7, .enable_prefix_caching = false},
  };
  for (const WorldOptions& options : settings) {
    World world(options);
    for (int round = 0; round < 2; ++round) {  // the second one finds a warm cache
      std::vector<int64_t> ids;
      for (const Request& request : mixed_requests()) ids.push_back(world.submit(request));
      world.run();
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(world.answers(ids[i]), alone[i])
            << "request " << i << " budget " << options.budget << " round " << round;
      }
    }
    EXPECT_LE(world.model().tokens_max, options.budget);
  }
}

TEST(EngineCore, PreemptionChangesNothing) {
  const auto request = [](uint32_t i) {
    return Request{.prompt_ids = prompt(5, i), .sampling = {.seed = i}, .max_tokens = 80, .ignore_eos = true, .n = 2};
  };
  for (bool caching : {true, false}) {
    World world({.num_blocks = 9, .enable_prefix_caching = caching});
    for (uint32_t i = 0; i < 5; ++i) world.submit(request(i));
    world.run();
    EXPECT_GT(world.core().stats().preemptions_total, 0u);
    for (uint32_t i = 0; i < 5; ++i) {
      World alone;
      alone.submit(request(i));
      alone.run();
      EXPECT_EQ(world.answers(i), alone.answers(0)) << i;
    }
  }
}

TEST(EngineCore, CountersAgreeWithTheEvents) {
  World world;
  uint64_t prompt_tokens = 0, output_tokens = 0;
  std::vector<int64_t> ids;
  for (const Request& request : mixed_requests()) ids.push_back(world.submit(request));
  world.run();
  for (size_t i = 0; i < ids.size(); ++i) {
    const Answers answers = world.answers(ids[i]);
    EXPECT_EQ(answers.size(), static_cast<size_t>(mixed_requests()[i].n));
    prompt_tokens += answers.at(0).finish.prompt_tokens;
    for (const auto& [index, answer] : answers) {
      EXPECT_EQ(answer.finish.output_tokens, static_cast<int32_t>(answer.ids.size()));
      EXPECT_EQ(answer.finish.seed, 100 + i);
      output_tokens += answer.ids.size();
    }
  }
  const EngineStats stats = world.core().stats();
  EXPECT_EQ(stats.prompt_tokens_total, prompt_tokens);
  EXPECT_EQ(stats.generation_tokens_total, output_tokens);
  EXPECT_EQ(stats.prefix_queries_total, prompt_tokens);
  EXPECT_EQ(world.core().requests_ended(), 12);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
}

TEST(EngineCore, PositionsInLiveBlocksAreCounted) {
  World world;
  world.submit({.prompt_ids = prompt(40, 1), .max_tokens = 4, .ignore_eos = true});
  world.submit({.prompt_ids = prompt(15, 2), .max_tokens = 4, .ignore_eos = true});
  world.step();
  const EngineStats stats = world.core().stats();
  EXPECT_EQ(stats.kv_blocks_total - stats.kv_blocks_free - stats.kv_blocks_cached, 3 + 1);
  EXPECT_EQ(stats.kv_positions_live, 40 + 15);
  world.run();
  EXPECT_EQ(world.core().stats().kv_positions_live, 0);
}

TEST(EngineCore, SecondRequestReusesThePrompt) {
  World world;
  const Request request{.prompt_ids = prompt(50, 1), .max_tokens = 4, .ignore_eos = true};
  const Answer cold = world.only(request);
  const int64_t computed = world.model().tokens_total;
  EXPECT_EQ(cold.finish.cached_tokens, 0);
  const Answer warm = world.only(request);
  EXPECT_EQ(warm.finish.cached_tokens, 48);
  EXPECT_EQ(world.model().tokens_total - computed, 2 + 3);  // what is not in full blocks, then one per further token
  EXPECT_EQ(world.core().stats().prefix_hits_total, 48u);
  // A prompt of full blocks alone still computes its last token.
  EXPECT_EQ(world.only({.prompt_ids = prompt(48, 1), .max_tokens = 1}).finish.cached_tokens, 32);
}

TEST(EngineCore, AnswersToOnePromptShareIt) {
  World world;
  const Request request{.prompt_ids = prompt(40, 2), .max_tokens = 6, .ignore_eos = true, .n = 4};
  const int64_t id = world.submit(request);
  world.run();
  const Answers answers = world.answers(id);
  EXPECT_EQ(world.model().tokens_total, 40 + 4 * 5);  // the prompt once
  EXPECT_EQ(world.device().copies, 3);                // the partial block of each but the last to write it
  EXPECT_NE(answers.at(0).ids, answers.at(1).ids);
  for (int32_t index = 0; index < 4; ++index) EXPECT_EQ(answers.at(index).ids.size(), 6u);
}

TEST(EngineCore, EndsExactlyWhereItShould) {
  World world;
  world.model().script = [](std::span<const int32_t> context) { return context.size() < 10 ? 20 : 2; };
  Request request{.prompt_ids = prompt(4, 3), .sampling = {.temperature = 0}};
  Answer answer = world.only(request);
  EXPECT_EQ(answer.ids,
            (std::vector<int32_t>{20, 20, 20, 20, 20, 20, 2}));  // the end token is among the ids, not in the text
  EXPECT_EQ(answer.text, "<20><20><20><20><20><20>");
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);

  request.max_tokens = 7;
  EXPECT_EQ(world.only(request).finish.reason, FinishReason::kStop);
  request.max_tokens = 6;
  answer = world.only(request);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(answer.finish.output_tokens, 6);

  request.max_tokens = 9;
  request.ignore_eos = true;
  answer = world.only(request);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(answer.text, "<20><20><20><20><20><20>");  // special tokens are skipped
  request.skip_special_tokens = false;
  EXPECT_EQ(world.only(request).text, "<20><20><20><20><20><20><2><2><2>");

  request.stop_token_ids = {20};
  answer = world.only(request);
  EXPECT_EQ(answer.ids, (std::vector<int32_t>{20}));
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
}

TEST(EngineCore, WithoutALimitTheContextEndsIt) {
  World world({.num_blocks = 4});
  world.model().script = [](std::span<const int32_t>) { return 9; };
  const Answer answer = world.only({.prompt_ids = prompt(60, 4), .sampling = {.temperature = 0}});
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(answer.finish.output_tokens, 4);
}

TEST(EngineCore, StopStringsAcrossTokens) {
  auto tokens = pieces();
  tokens[10] = "one";
  tokens[11] = " tw";
  tokens[12] = "o thr";
  tokens[13] = "ee \xC3";
  tokens[14] = "\xA9!";
  World world({}, tokens);
  world.model().script = [](std::span<const int32_t> context) {
    return 10 + static_cast<int32_t>(context.size() - 1) % 5;
  };
  const auto answer = [&](std::vector<std::string> stops) {
    return world.only({.prompt_ids = {5}, .sampling = {.temperature = 0}, .max_tokens = 7, .stop = std::move(stops)});
  };
  EXPECT_EQ(answer({"two"}).text, "one ");
  EXPECT_EQ(answer({"two"}).ids.size(), 3u);
  EXPECT_EQ(answer({"two"}).finish.stop_text, "two");
  EXPECT_EQ(answer({"\xC3\xA9"}).text, "one two three ");
  EXPECT_EQ(answer({"one"}).text, "");
  EXPECT_EQ(answer({"", "three"}).text, "one two ");
  const Answer unmatched = answer({" two three four"});
  EXPECT_EQ(unmatched.text, "one two three \xC3\xA9!one tw");
  EXPECT_EQ(unmatched.finish.text, " tw");
  EXPECT_EQ(unmatched.finish.reason, FinishReason::kLength);
  // Cut inside a character: it is left out.
  EXPECT_EQ(world.only({.prompt_ids = {5}, .sampling = {.temperature = 0}, .max_tokens = 4}).text, "one two three ");
}

TEST(EngineCore, CancelGivesBlocksBackAtOnce) {
  World world({.budget = 16, .max_num_seqs = 2});
  const int64_t a = world.submit({.prompt_ids = prompt(20, 5), .ignore_eos = true, .n = 3});
  const int64_t b = world.submit({.prompt_ids = prompt(40, 6), .ignore_eos = true});
  for (int i = 0; i < 4; ++i) world.step();
  world.core().cancel(a);
  world.core().check();
  const Answers answers = world.answers(a);
  EXPECT_EQ(answers.size(), 3u);
  for (const auto& [index, answer] : answers) EXPECT_EQ(answer.finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(world.core().stats().running + world.core().stats().waiting, 1);
  world.core().cancel(b);
  world.core().cancel(b);
  EXPECT_TRUE(world.core().idle());
  world.core().check();
}

TEST(EngineCore, OneBadAnswerHurtsNobodyElse) {
  World solo;
  const Request good{.prompt_ids = prompt(9, 7), .sampling = {.seed = 3}, .max_tokens = 20, .ignore_eos = true};
  const Answer expected = solo.only(good);

  World world;
  world.model().nan_after = 4;
  const int64_t bad_id = world.submit({.prompt_ids = {3, 4}, .n = 2});
  const int64_t good_id = world.submit(good);
  world.run();
  const Answers bad = world.answers(bad_id);
  ASSERT_EQ(bad.size(), 2u);
  for (const auto& [index, answer] : bad) {
    EXPECT_EQ(answer.finish.reason, FinishReason::kError);
    EXPECT_TRUE(answer.finish.error);
  }
  // The hash may lead through token 4 as well; then the good one ends there, too.
  const Answer got = world.answers(good_id).at(0);
  ASSERT_LE(got.ids.size(), expected.ids.size());
  EXPECT_TRUE(std::equal(got.ids.begin(), got.ids.end(), expected.ids.begin()));
  EXPECT_TRUE(got == expected || got.ids.back() == 4);
}

TEST(EngineCore, AFailedStepEndsItsRequestsOnly) {
  World world;
  const int64_t id = world.submit({.prompt_ids = {5, 6}, .max_tokens = 5, .ignore_eos = true});
  world.step();
  world.model().fail = true;
  world.step();
  EXPECT_TRUE(world.core().idle());
  EXPECT_EQ(world.answers(id).at(0).finish.reason, FinishReason::kError);
  world.model().fail = false;
  EXPECT_EQ(world.only({.prompt_ids = {5, 6}, .max_tokens = 5, .ignore_eos = true}).finish.reason,
            FinishReason::kLength);
}

TEST(EngineCore, DecodeGoesOnWhileALongPromptComesIn) {
  World world({.budget = 8});
  const int64_t stream = world.submit({.prompt_ids = prompt(4, 8), .max_tokens = 100, .ignore_eos = true});
  world.step();
  world.submit({.prompt_ids = prompt(80, 9), .max_tokens = 1});
  const uint64_t before = world.core().stats().generation_tokens_total;
  for (int i = 0; i < 8; ++i) world.step();
  EXPECT_EQ(world.core().stats().generation_tokens_total - before, 8u);
  world.core().cancel(stream);
  world.run();
}

TEST(EngineCore, PriorityIsServedFirst) {
  World world({.max_num_seqs = 1});
  const int64_t first = world.submit({.prompt_ids = prompt(4, 10), .max_tokens = 3, .ignore_eos = true, .priority = 5});
  const int64_t second =
      world.submit({.prompt_ids = prompt(4, 11), .max_tokens = 3, .ignore_eos = true, .priority = -1});
  for (int i = 0; i < 3; ++i) world.step();
  EXPECT_EQ(world.answers(second).at(0).ids.size(), 3u);
  world.run();
  EXPECT_EQ(world.answers(first).at(0).ids.size(), 3u);
}

TEST(EngineCore, TopLogprobsAreOfTheRawLogits) {
  World world;
  Request request{.prompt_ids = prompt(5, 12), .sampling = {.temperature = 0}, .max_tokens = 3, .ignore_eos = true};
  request.top_logprobs = 4;
  const int64_t id = world.submit(request);
  world.run();
  std::vector<Event> events;
  auto valid = validate_request(request, {.vocab_size = kVocab, .max_model_len = 64}, {});
  World again;
  again.core().submit(0, *valid);
  again.run();
  int tokens = 0;
  while (auto event = (*valid)->events.try_next()) {
    if (!event->token) continue;
    ++tokens;
    const auto& top = event->token->top_logprobs;
    ASSERT_EQ(top.size(), 4u);
    EXPECT_EQ(top[0].first, event->token->id);
    EXPECT_FLOAT_EQ(top[0].second, event->token->logprob);
    EXPECT_TRUE(std::ranges::is_sorted(top, [](auto& a, auto& b) { return a.second > b.second; }));
  }
  EXPECT_EQ(tokens, 3);
  EXPECT_EQ(world.answers(id).at(0).ids.size(), 3u);
}

// A seeded world: requests come and go in any order, cancels strike anywhere; blocks are counted after every step.
TEST(EngineCore, SimulatedTraffic) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
    World world({.budget = 1 + below(40),
                 .max_num_seqs = 1 + below(6),
                 .num_blocks = 6 + below(20),
                 .enable_prefix_caching = below(4) != 0});
    std::vector<int64_t> ids;
    for (int tick = 0; tick < 300; ++tick) {
      if (below(3) == 0 && ids.size() < 60) {
        Request request{.prompt_ids = prompt(1 + below(80), static_cast<uint32_t>(below(4))),
                        .max_tokens = 1 + below(30)};
        request.n = 1 + below(3);
        request.priority = below(3);
        ids.push_back(world.submit(std::move(request)));
      }
      if (!ids.empty() && below(15) == 0)
        world.core().cancel(ids[static_cast<size_t>(below(static_cast<uint32_t>(ids.size())))]);
      world.step();
    }
    world.run();
    EXPECT_EQ(world.core().requests_ended(), static_cast<int64_t>(ids.size())) << "seed " << seed;
    for (int64_t id : ids) {
      for (const auto& [index, answer] : world.answers(id)) EXPECT_NE(answer.finish.reason, FinishReason::kError);
    }
  }
}

}  // namespace
}  // namespace quern::testing
