#include "engine/memory_estimate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/engine_factory.h"
#include "engine/runner.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

// The cache is what the engine itself makes of the same options, for every causal model among the fixtures.
TEST(MemoryEstimate, SizesTheCacheAsTheEngineDoes) {
  int32_t models = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(QUERN_TEST_DATA) / "golden/families")) {
    const auto source = open_model_source(entry.path());
    if (!source || (*source)->tensors() == nullptr) continue;
    const auto config = read_model_config(**source);
    if (!config || config->kind != ModelKind::kDecoder) continue;
    EngineOptions options;
    options.model_path = entry.path();
    options.num_threads = 1;
    options.max_num_seqs = 3;
    options.max_num_batched_tokens = 64;
    const auto estimate = estimate_memory(**source, options);
    ASSERT_TRUE(estimate) << entry.path() << ": " << estimate.error().message;
    const auto runner = runner_options(options);
    ASSERT_TRUE(runner);
    auto loaded = Runner::create(std::move(*open_model_source(entry.path())), *runner);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EngineParts parts;
    parts.runner = std::move(*loaded);
    const auto engine = create_engine(std::move(parts), options);
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_EQ(estimate->max_model_len, (*engine)->max_model_len()) << entry.path();
    EXPECT_GE(estimate->kv_cache, (*engine)->stats().kv_blocks_total * estimate->kv_bytes_per_token) << entry.path();
    EXPECT_GT(estimate->weights, 0);
    EXPECT_GT(estimate->activations, 0);
    ++models;
  }
  EXPECT_GE(models, 10);
}

TEST(MemoryEstimate, ReadsOptionsAsTheEngineDoes) {
  const ModelNumbers numbers{.weight_bytes = 1000,
                             .layers = 2,
                             .hidden = 64,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 32,
                             .context_length = 256};
  EngineOptions options;
  options.max_num_seqs = 1;
  options.kv_cache_dtype = "f16";
  const auto plain = estimate_memory(numbers, options);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->weights, 1000);
  EXPECT_EQ(plain->kv_bytes_per_token, 2 * 2 * (32 + 32) * 2);
  EXPECT_EQ(plain->kv_cache, 256 * plain->kv_bytes_per_token);
  EXPECT_EQ(plain->max_model_len, 256);
  options.kv_cache_dtype = "q8_0";
  options.max_model_len = 128;
  const auto small = estimate_memory(numbers, options);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->kv_bytes_per_token, 2 * 2 * (34 + 34));
  options.kv_cache_dtype = "f8";
  EXPECT_NE(estimate_memory(numbers, options).error().message.find("kv_cache_dtype"), std::string::npos);
  options = {};
  options.max_model_len = 512;
  EXPECT_NE(estimate_memory(numbers, options).error().message.find("max_model_len"), std::string::npos);
}

TEST(MemoryEstimate, KnowsItsFamilies) {
  for (const char* name : {"llama", "qwen2", "gemma3", "gemma3_text", "bert", "xlm-roberta", "modernbert", "gpt_oss"}) {
    EXPECT_TRUE(runs_family(name)) << name;
  }
  for (const char* name : {"", "whisper", "unknown", "flux"}) EXPECT_FALSE(runs_family(name)) << name;
}

}  // namespace
}  // namespace quern
