// What requests share, and what keeps them apart: scored prompts, the disk tier, turns, salts.
#include <filesystem>

#include "engine/core_world.h"

namespace quern::testing {
namespace {

TEST(EngineCore, BackgroundGoesBehindWhereThereArePriorities) {
  const auto priority = [](bool background, int32_t given, bool priorities) {
    Request request{.prompt_ids = {5}, .priority = given, .background = background};
    const auto valid =
        validate_request(request, {.vocab_size = kVocab, .max_model_len = 64, .priorities = priorities}, {2});
    EXPECT_TRUE(valid) << valid.error().message;
    return valid ? (*valid)->request.priority : -1;
  };
  EXPECT_GT(priority(true, 0, true), 1000);
  EXPECT_EQ(priority(true, 7, true), 7) << "what the request says counts";
  EXPECT_EQ(priority(false, 0, true), 0);
  EXPECT_EQ(priority(true, 0, false), 0) << "fcfs: taken, and by arrival";
}

TEST(EngineCore, PromptLogprobsAreThoseOfDrawingThePrompt) {
  const std::vector<int32_t> ids = prompt(90, 21);
  // What a sampler that may only draw the prompt says of each token.
  std::vector<float> expected;
  for (size_t i = 1; i < ids.size(); ++i) {
    Request forced{.prompt_ids = std::vector(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(i)), .max_tokens = 1};
    forced.sampling.allowed_token_ids = std::vector{ids[i]};
    World world;
    expected.push_back(world.only(forced).logprobs.at(0));
  }
  Request request{.prompt_ids = ids, .sampling = {.seed = 3}, .max_tokens = 5, .n = 2, .prompt_logprobs = 2};
  Request plain = request;
  plain.prompt_logprobs.reset();
  World reference;
  const int64_t plain_id = reference.submit(plain);
  reference.run();
  const Answers answers = reference.answers(plain_id);
  for (const int32_t spare : {0, 3, 64}) {
    World world({.num_blocks = 16, .spare_rows = spare});
    world.only({.prompt_ids = ids, .max_tokens = 2});
    const int64_t other = world.submit({.prompt_ids = prompt(60, 4), .max_tokens = 80, .ignore_eos = true, .n = 2});
    const int64_t scored = world.submit(request);
    const int64_t twin = world.submit(request);
    world.run();
    EXPECT_EQ(world.answers(scored), answers);
    const std::vector<PromptEvent> events = world.take_prompt_events();
    ASSERT_EQ(events.size(), ids.size() - 1);
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].id, ids[i + 1]);
      EXPECT_NEAR(events[i].logprob, expected[i], 1e-5);
      ASSERT_EQ(events[i].top_logprobs.size(), 2u);
      EXPECT_GE(events[i].rank, 1);
      EXPECT_EQ(events[i].rank == 1, events[i].top_logprobs[0].first == events[i].id);
    }
    world.answers(twin);
    EXPECT_EQ(world.take_prompt_events().size(), ids.size() - 1);
    world.answers(other);
  }
}

TEST(EngineCore, EvictedBlocksComeBackFromDisk) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "quern_core_disk";
  std::filesystem::remove(path);
  const DiskTier::Options disk_options{.path = path,
                                       .bytes_max = 1 << 20,
                                       .fingerprint = 1,
                                       .block_bytes = kKvBlockSize * sizeof(int32_t),
                                       .block_tokens = kKvBlockSize};
  std::vector<Answer> cold;
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back({.prompt_ids = prompt(90, 50 + i), .sampling = {.seed = i}, .max_tokens = 20});
    World world;
    cold.push_back(world.only(requests.back()));
  }
  {
    auto disk = *DiskTier::open(disk_options);
    World world({.num_blocks = 10, .disk = disk.get()});
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(world.only(requests[i]), cold[i]);
    EXPECT_EQ(world.core().stats().disk_hits_total, 0u);
    const Answer warm = world.only(requests[0]);
    EXPECT_EQ(warm, cold[0]);
    EXPECT_EQ(warm.finish.cached_tokens, 80);
    EXPECT_GE(world.core().stats().disk_hits_total, 80u) << "five other prompts pushed it out of ten blocks";
    while (world.core().save_some(3)) continue;
  }
  auto disk = *DiskTier::open(disk_options);
  World restarted({.num_blocks = 10, .disk = disk.get()});
  for (size_t i = 0; i < requests.size(); ++i) {
    const Answer answer = restarted.only(requests[i]);
    EXPECT_EQ(answer, cold[i]);
    EXPECT_EQ(answer.finish.cached_tokens, 80) << i;
  }
}

TEST(EngineCore, TenantsTakeTurns) {
  World world({.max_num_seqs = 1});
  std::vector<int64_t> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(world.submit({.prompt_ids = prompt(8, 30), .max_tokens = 4, .ignore_eos = true, .tenant = 1}));
  }
  const int64_t one = world.submit({.prompt_ids = prompt(8, 31), .max_tokens = 4, .ignore_eos = true, .tenant = 2});
  for (int i = 0; i < 8; ++i) world.step();
  EXPECT_EQ(world.answers(one).at(0).ids.size(), 4u) << "second in turn, though last to come";
  world.run();
  for (const int64_t id : many) EXPECT_EQ(world.answers(id).at(0).ids.size(), 4u);
}

TEST(EngineCore, AnotherCacheSaltFindsNothing) {
  World world;
  Request request{.prompt_ids = prompt(100, 1), .max_tokens = 4};
  request.cache_salt = "mine";
  world.only(request);
  EXPECT_EQ(world.only(request).finish.cached_tokens, 96);
  request.cache_salt = "theirs";
  EXPECT_EQ(world.only(request).finish.cached_tokens, 0);
  request.cache_salt.clear();
  EXPECT_EQ(world.only(request).finish.cached_tokens, 0);
}

}  // namespace
}  // namespace quern::testing
