// Whole answers of real checkpoints against the official implementation's, through the public door: every causal model
// among the fixtures, and SmolLM2 where its file is at hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "engine/engine_factory.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

struct GoldenPrompt {
  std::vector<int32_t> ids, greedy;
};
std::vector<GoldenPrompt> golden_prompts(const Json& golden) {
  std::vector<GoldenPrompt> prompts;
  for (const Json& prompt : golden["prompts"]) prompts.push_back({prompt["ids"], prompt["greedy"]});
  return prompts;
}

// Submits all prompts at once and returns the ids of each answer.
std::vector<std::vector<int32_t>> greedy(Engine& engine, const std::vector<GoldenPrompt>& prompts) {
  std::vector<std::unique_ptr<EventStream>> streams;
  for (const GoldenPrompt& prompt : prompts) {
    auto stream = engine.submit({.prompt_ids = prompt.ids,
                                 .sampling = {.temperature = 0},
                                 .max_tokens = static_cast<int32_t>(prompt.greedy.size()),
                                 .ignore_eos = true});
    EXPECT_TRUE(stream) << stream.error().message;
    if (stream) streams.push_back(std::move(*stream));
  }
  std::vector<std::vector<int32_t>> answers;
  for (auto& stream : streams) {
    auto& ids = answers.emplace_back();
    while (auto event = stream->next()) {
      if (event->token) ids.push_back(event->token->id);
    }
  }
  return answers;
}

std::vector<std::vector<int32_t>> expected(const std::vector<GoldenPrompt>& prompts) {
  std::vector<std::vector<int32_t>> answers;
  for (const GoldenPrompt& prompt : prompts) answers.push_back(prompt.greedy);
  return answers;
}

std::unique_ptr<Engine> open_exact(const fs::path& path, EngineOptions options = {}) {
  options.model_path = path;
  options.precision = "exact";
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine) << path << ": " << engine.error().message;
  return engine ? std::move(*engine) : nullptr;
}

std::vector<fs::path> causal_fixtures() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(fs::path(QUERN_TEST_DATA) / "golden/models")) {
    if (!fs::exists(entry.path() / "golden.json")) continue;
    if (read_json(entry.path() / "golden.json")["task"] == "causal-lm") folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

class Fixture : public ::testing::TestWithParam<fs::path> {};

TEST_P(Fixture, GreedyAnswersAreTheOfficialOnes) {
  const auto prompts = golden_prompts(read_json(GetParam() / "golden.json"));
  ASSERT_EQ(prompts.size(), 3u);
  const auto engine = open_exact(GetParam(), {.num_threads = 2});
  ASSERT_TRUE(engine);
  EXPECT_EQ(greedy(*engine, prompts), expected(prompts));
  EXPECT_EQ(greedy(*engine, prompts), expected(prompts)) << "with a warm prefix cache";
  EXPECT_GT(engine->stats().prefix_hits_total, 0u);
}

TEST_P(Fixture, ChunksThreadsAndPreemptionChangeNothing) {
  const auto prompts = golden_prompts(read_json(GetParam() / "golden.json"));
  for (const EngineOptions& options : {EngineOptions{.num_threads = 1, .max_num_batched_tokens = 5},
                                       EngineOptions{.num_threads = 2, .max_model_len = 64, .max_num_seqs = 2},
                                       EngineOptions{.num_threads = 1, .enable_prefix_caching = false}}) {
    const auto engine = open_exact(GetParam(), options);
    ASSERT_TRUE(engine);
    EXPECT_EQ(greedy(*engine, prompts), expected(prompts));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Fixture, ::testing::ValuesIn(causal_fixtures()),
                         [](const auto& info) { return info.param.filename().string(); });

TEST(Fixtures, AreThere) {
  EXPECT_GE(causal_fixtures().size(), 13u);
}

TEST(SmolLM2, ContinuesAsTheOfficialImplementation) {
  const char* folder = std::getenv("QUERN_TEST_MODELS");
  const fs::path path = folder ? fs::path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf" : fs::path();
  if (!folder || !fs::exists(path))
    GTEST_SKIP() << "QUERN_TEST_MODELS names no folder with SmolLM2-135M-Instruct.Q4_1.gguf";
  const auto prompts = golden_prompts(read_json(fs::path(QUERN_TEST_DATA) / "golden/smollm2/golden.json"));
  const auto engine = open_exact(path, {.max_model_len = 512});
  ASSERT_TRUE(engine);
  EXPECT_EQ(greedy(*engine, prompts), expected(prompts));
}

}  // namespace
}  // namespace quern
