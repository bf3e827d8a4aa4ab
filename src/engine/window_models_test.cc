// Models with window layers and full layers on the real device: the engine, whose window layers keep no more than they
// see, against storage that keeps everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine_factory.h"
#include "engine/sequence_runner.h"
#include "sched/block_groups.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kPrompt = 170, kAnswer = 60, kChunk = 32;

std::vector<int32_t> prompt(int32_t vocab_size, uint32_t seed) {
  std::mt19937 shared(1), own(seed);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < kPrompt; ++i) {
    ids.push_back(static_cast<int32_t>((i < 70 ? shared : own)() % static_cast<uint32_t>(vocab_size)));
  }
  return ids;
}

std::vector<int32_t> greedy_answer(Runner& runner, std::span<const int32_t> ids) {
  auto sequences = *SequenceRunner::create(runner, {.num_sequences = 1, .tokens_max = kPrompt + kAnswer});
  std::vector<int32_t> answer;
  const auto take = [&](int32_t, std::span<float> logits) -> Status {
    if (!logits.empty()) answer.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    return {};
  };
  EXPECT_TRUE(sequences.append_chunked(0, ids, LogitsRows::kLast, take));
  while (answer.size() < kAnswer) {
    const int32_t last = answer.back();
    EXPECT_TRUE(sequences.append_chunked(0, {&last, 1}, LogitsRows::kLast, take));
  }
  return answer;
}

// All prompts at once, n answers each.
void check_answers(Engine& engine, const std::vector<std::vector<int32_t>>& prompts,
                   const std::vector<std::vector<int32_t>>& expected) {
  std::vector<std::unique_ptr<EventStream>> streams;
  for (size_t i = 0; i < prompts.size(); ++i) {
    auto stream = engine.submit({.prompt_ids = prompts[i],
                                 .sampling = {.temperature = 0},
                                 .max_tokens = kAnswer,
                                 .ignore_eos = true,
                                 .n = 1 + static_cast<int32_t>(i % 2)});
    ASSERT_TRUE(stream) << stream.error().message;
    streams.push_back(std::move(*stream));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::map<int32_t, std::vector<int32_t>> answers;
    while (auto event = streams[i]->next()) {
      if (event->token) answers[event->token->index].push_back(event->token->id);
    }
    for (const auto& [index, ids] : answers) EXPECT_EQ(ids, expected[i]) << "prompt " << i << " answer " << index;
  }
}

class WindowModel : public ::testing::TestWithParam<const char*> {};

TEST_P(WindowModel, AnswersAreThoseOfStorageThatKeepsAll) {
  const fs::path path = fs::path(QUERN_TEST_DATA) / "golden/models" / GetParam();
  auto source = open_model_source(path);
  ASSERT_TRUE(source) << source.error().message;
  auto runner = Runner::create(std::move(*source), {.precision = Precision::kExact, .num_threads = 1});
  ASSERT_TRUE(runner) << runner.error().message;
  const KvLayout layout = (*runner)->window_kv_groups();
  EXPECT_GT(layout.num_groups(), 1);
  std::vector<std::vector<int32_t>> prompts, expected;
  for (uint32_t seed = 2; seed < 5; ++seed) {
    prompts.push_back(prompt((*runner)->config().vocab_size, seed));
    expected.push_back(greedy_answer(**runner, prompts.back()));
  }
  const BlockGroups groups{.windows = layout.windows};
  const int64_t one = peak_blocks(groups, kPrompt + kAnswer, kChunk) * layout.block_bytes();
  const fs::path disk = fs::path(::testing::TempDir()) / "quern_window_models";
  fs::remove(disk);
  for (const int64_t bytes : {int64_t{0}, one}) {  // plenty, and just enough for one answer at a time
    EngineOptions options{.model_path = path, .num_threads = 2, .max_num_batched_tokens = kChunk};
    options.precision = "exact";
    options.kv_cache_bytes = bytes;
    options.kv_disk_path = disk;
    options.kv_disk_bytes = 64 << 20;
    for (int start = 0; start < 2; ++start) {  // the second one finds what the first left on disk
      auto engine = Engine::create(options);
      ASSERT_TRUE(engine) << engine.error().message;
      EXPECT_GE((*engine)->max_model_len(), kPrompt + kAnswer);
      for (int round = 0; round < 2; ++round) check_answers(**engine, prompts, expected);
      EXPECT_GT((*engine)->stats().prefix_hits_total, 0u);
      if (start == 1) {
        EXPECT_GT((*engine)->stats().disk_hits_total, 0u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WindowModel, ::testing::Values("gemma2", "gemma3", "gpt_oss"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace quern
