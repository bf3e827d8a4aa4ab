// Models whose layers have windows: blocks behind them are given back, and nothing else changes.
#include <filesystem>

#include "engine/core_world.h"

namespace quern::testing {
namespace {

// Layers of the model, and how many groups they make.
struct Mixture {
  std::vector<int32_t> windows;
  int32_t groups;
};
std::vector<Mixture> mixtures() {
  return {{{0, 40}, 2}, {{24, 0, 24, 24}, 4}, {{24, 24, 0, 24, 24, 0}, 3}, {{0, 5, 70, 0, 5, 70}, 3}, {{17, 17}, 1}};
}

// What requests get from a model that keeps everything.
std::vector<Answers> answers_without_groups(const std::vector<int32_t>& windows, const std::vector<Request>& requests,
                                            const fake::Script& script = {}) {
  std::vector<Answers> answers;
  for (const Request& request : requests) {
    World world({.num_blocks = 256, .enable_prefix_caching = false, .windows = windows, .one_group = true});
    world.model().script = script;
    const int64_t id = world.submit(request);
    world.run();
    answers.push_back(world.answers(id));
  }
  return answers;
}

TEST(EngineCoreWindows, SameAnswersWhoeverSharesTheBatch) {
  const std::vector<Request> requests = mixed_requests();
  for (const auto& [windows, groups] : mixtures()) {
    const auto expected = answers_without_groups(windows, requests);
    const WorldOptions settings[] = {
        {.num_blocks = 256},
        {.num_blocks = 256, .enable_prefix_caching = false},
        {.budget = 1, .max_num_seqs = 3},
        {.budget = 7},
        {.budget = 33, .max_num_seqs = 2},
        {.budget = 64, .num_blocks = 9 * groups},
        {.budget = 16, .num_blocks = 8 * groups, .enable_prefix_caching = false},
    };
    for (WorldOptions options : settings) {
      options.windows = windows;
      World world(options);
      EXPECT_EQ(world.groups().count(), groups);
      for (int round = 0; round < 2; ++round) {  // the second one finds a warm cache
        std::vector<int64_t> ids;
        for (const Request& request : requests) ids.push_back(world.submit(request));
        world.run();
        for (size_t i = 0; i < ids.size(); ++i) {
          EXPECT_EQ(world.answers(ids[i]), expected[i])
              << "request " << i << " groups " << groups << " budget " << options.budget << " round " << round;
        }
      }
    }
  }
}

TEST(EngineCoreWindows, PreemptionChangesNothing) {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 5; ++i) {
    requests.push_back(
        {.prompt_ids = prompt(5, i), .sampling = {.seed = i}, .max_tokens = 80, .ignore_eos = true, .n = 2});
  }
  for (const auto& [windows, groups] : mixtures()) {
    const auto expected = answers_without_groups(windows, requests);
    for (bool caching : {true, false}) {
      World world({.num_blocks = 7 * groups, .enable_prefix_caching = caching, .windows = windows});
      for (const Request& request : requests) world.submit(request);
      world.run();
      EXPECT_GT(world.core().stats().preemptions_total, 0u) << groups;
      for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(world.answers(static_cast<int64_t>(i)), expected[i]);
    }
  }
}

TEST(EngineCoreWindows, WrongGuessesChangeNothing) {
  const auto tune = [](std::span<const int32_t> context) {
    const auto place = context.back() % 12 + (context.size() % 11 == 0 ? 1 : 0);
    return context.back() % 37 == 0 ? -1 : 10 + place * place % 29;
  };
  std::vector<Request> requests = mixed_requests();
  for (Request& request : requests) {
    request.stop.clear();
    request.max_tokens += 40;
  }
  for (const auto& [windows, groups] : mixtures()) {
    const auto expected = answers_without_groups(windows, requests, tune);
    for (int32_t num_blocks : {256, 12 * groups}) {
      World world({.num_blocks = num_blocks, .windows = windows, .speculation = Speculation::kNgram});
      world.model().script = tune;
      for (const Request& request : requests) world.submit(request);
      world.run();
      for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(world.answers(static_cast<int64_t>(i)), expected[i]);
      const EngineStats stats = world.core().stats();
      EXPECT_GT(stats.accepted_draft_tokens_total, 0u);
      EXPECT_LT(stats.accepted_draft_tokens_total, stats.draft_tokens_total);
    }
  }
}

TEST(EngineCoreWindows, LiveBlocksStayWithinTheBound) {
  const std::vector<Mixture> all = mixtures();
  for (const Mixture& mixture : all) {
    Request request{.prompt_ids = prompt(150, 7), .sampling = {.seed = 5}, .max_tokens = 60, .ignore_eos = true};
    const auto expected = answers_without_groups(mixture.windows, {request});
    for (bool caching : {true, false}) {
      for (int32_t budget : {3, 64}) {
        World world({.budget = budget, .num_blocks = 64, .enable_prefix_caching = caching, .windows = mixture.windows});
        const int64_t id = world.submit(request);
        while (!world.core().idle()) {
          world.step();
          if (world.core().idle()) break;
          const int64_t tokens = world.model().tokens_total;
          // Between steps what the coming query sees: no more than a step of one token.
          EXPECT_LE(world.live_blocks(), peak_blocks(world.groups(), tokens, 1)) << tokens << " tokens";
        }
        EXPECT_EQ(world.answers(id), expected[0]);
      }
    }
  }
}

// A pool that holds a long sequence of a model with windows, and would not hold it without.
TEST(EngineCoreWindows, ALongSequenceFits) {
  const std::vector<int32_t> windows{0, 16, 16, 16, 16, 16};
  const BlockGroups groups{.windows = windows};
  const int64_t blocks = peak_blocks(groups, 250, 8);
  EXPECT_EQ(blocks, 16 + 5 * 3);
  Request request{.prompt_ids = prompt(200, 3), .sampling = {.seed = 1}, .max_tokens = 50, .ignore_eos = true};
  const auto expected = answers_without_groups(windows, {request});
  World world({.budget = 8, .num_blocks = static_cast<int32_t>(blocks), .windows = windows});
  EXPECT_EQ(world.groups().count(), 6);
  const int64_t first = world.submit(request), twin = world.submit(request);
  world.run();
  EXPECT_EQ(world.answers(first), expected[0]);
  EXPECT_EQ(world.answers(twin), expected[0]);
}

TEST(EngineCoreWindows, ARepeatedPromptIsAHit) {
  for (const auto& [windows, groups] : mixtures()) {
    World world({.num_blocks = 128, .windows = windows});
    const Request request{
        .prompt_ids = prompt(100, 1), .sampling = {.temperature = 0}, .max_tokens = 4, .ignore_eos = true};
    const Answer cold = world.only(request);
    const int64_t computed = world.model().tokens_total;
    EXPECT_EQ(cold.finish.cached_tokens, 0);
    const Answer warm = world.only(request);
    EXPECT_EQ(warm, cold);
    EXPECT_EQ(warm.finish.cached_tokens, 96);
    EXPECT_EQ(world.model().tokens_total - computed, 4 + 3);
    // A shorter prompt finds what the window left behind, too, as long as it is not evicted.
    Request shorter = request;
    shorter.prompt_ids.resize(40);
    EXPECT_EQ(world.only(shorter).finish.cached_tokens, 32);
  }
}

TEST(EngineCoreWindows, EvictedBlocksComeBackFromDisk) {
  const std::vector<int32_t> windows{24, 24, 0, 24, 24, 0};  // two full layers, four windows: three groups of two
  const auto path = std::filesystem::path(::testing::TempDir()) / "quern_core_windows_disk";
  std::filesystem::remove(path);
  const DiskTier::Options disk_options{.path = path,
                                       .bytes_max = 4 << 20,
                                       .fingerprint = 1,
                                       .block_bytes = 2 * kKvBlockSize * sizeof(int32_t),
                                       .block_tokens = kKvBlockSize};
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back({.prompt_ids = prompt(90, 50 + i), .sampling = {.seed = i}, .max_tokens = 20});
  }
  const auto expected = answers_without_groups(windows, requests);
  {
    auto disk = *DiskTier::open(disk_options);
    World world({.num_blocks = 24, .windows = windows, .disk = disk.get()});
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(world.only(requests[i]), expected[i].at(0));
    EXPECT_EQ(world.core().stats().disk_hits_total, 0u);
    const Answer warm = world.only(requests[0]);
    EXPECT_EQ(warm, expected[0].at(0));
    EXPECT_EQ(warm.finish.cached_tokens, 80);
    EXPECT_EQ(world.core().stats().disk_hits_total, 80u) << "five other prompts pushed it out";
    while (world.core().save_some(3)) continue;
  }
  {
    auto disk = *DiskTier::open(disk_options);
    World restarted({.num_blocks = 24, .windows = windows, .disk = disk.get()});
    for (size_t i = 0; i < requests.size(); ++i) {
      const Answer answer = restarted.only(requests[i]);
      EXPECT_EQ(answer, expected[i].at(0));
      EXPECT_EQ(answer.finish.cached_tokens, 80) << i;
    }
    EXPECT_EQ(restarted.core().stats().disk_hits_total, 6 * 80u);
  }
  // Somebody else needs all memory: the prompt is not read before it can be admitted, and then as a whole.
  auto disk = *DiskTier::open(disk_options);
  World crowded({.max_num_seqs = 2, .num_blocks = 24, .windows = windows, .disk = disk.get()});
  crowded.submit({.prompt_ids = prompt(100, 9), .sampling = {.seed = 9}, .max_tokens = 30, .ignore_eos = true});
  for (int i = 0; i < 2; ++i) crowded.step();
  const int64_t id = crowded.submit(requests[2]);
  crowded.run();
  const Answer answer = crowded.answers(id).at(0);
  EXPECT_EQ(answer, expected[2].at(0));
  EXPECT_EQ(answer.finish.cached_tokens, 80);
}

TEST(EngineCoreWindows, BlocksOfAnAllWindowModelAreGivenBack) {
  constexpr int32_t kWindow = 40;
  Request request{.prompt_ids = prompt(150, 7), .sampling = {.seed = 5}, .max_tokens = 60, .ignore_eos = true};
  World world({.enable_prefix_caching = false, .windows = {kWindow}});
  const int64_t id = world.submit(request);
  int32_t live_most = 0;
  while (!world.core().idle()) {
    world.step();
    live_most = std::max(live_most, world.live_blocks());
    if (world.model().tokens_total > 160) {
      EXPECT_LE(world.live_blocks(), (kWindow + 15) / 16 + 1);
    }
  }
  EXPECT_LE(live_most, (kWindow + 64 + 15) / 16 + 1) << "the window and one step's chunk";
  const Answer answer = world.answers(id).at(0);
  EXPECT_EQ(answer.ids.size(), 60u);
  World one_by_one({.budget = 3, .windows = {kWindow}});
  EXPECT_EQ(one_by_one.only(request), answer);
  World crowded({.budget = 16, .num_blocks = 14, .windows = {kWindow}});
  Request other = request;
  other.prompt_ids = prompt(120, 8);
  other.n = 3;
  crowded.submit(other);
  const int64_t twin = crowded.submit(request);
  crowded.run();
  EXPECT_EQ(crowded.answers(twin).at(0), answer);
}

}  // namespace
}  // namespace quern::testing
