// Words that go out come back as what they were; a change of a launch takes the place of what it names alone.
#include <gtest/gtest.h>

#include "server/platform/launch.h"
#include "server/platform/words.h"

namespace quern::platform {
namespace {

TEST(Words, FormatsComeBack) {
  struct Case {
    const char *format, *quantization, *word;
  };
  for (const Case& one :
       {Case{"gguf", "q4_k_m", "ggufv2"}, Case{"safetensors", "", "pytorch"}, Case{"safetensors", "awq", "awq"},
        Case{"safetensors", "gptq-int4", "gptq"}, Case{"safetensors", "fp8", "fp8"}, Case{"mlx", "4bit", "mlx"}}) {
    const FormatWords words = format_words(one.format, one.quantization);
    EXPECT_EQ(words.format, one.word);
    const auto spec = launch_spec_from_json(
        {{"model_name", "m"}, {"model_format", words.format}, {"quantization", words.quantization}});
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->format, one.format);
    EXPECT_EQ(spec->quantization, one.quantization);
  }
}

TEST(Words, Sizes) {
  EXPECT_EQ(size_word("7b"), 7);
  EXPECT_EQ(size_word("0.5b"), "0_5");
  EXPECT_EQ(size_word("1_8"), "1_8");
  EXPECT_EQ(size_word("135m"), "0_135");
  EXPECT_TRUE(size_word("").is_null());
  EXPECT_TRUE(size_word("large").is_null());
  EXPECT_TRUE(size_word(0.0).is_null());
}

TEST(Words, Replicas) {
  EXPECT_EQ(replica_index("a-b-12"), 12);
  EXPECT_EQ(replica_index("a"), -1);
  EXPECT_EQ(replica_index("a-"), -1);
  EXPECT_EQ(replica_index("a-1x"), -1);
  EXPECT_EQ(type_word("llm"), "LLM");
  EXPECT_EQ(type_word("video"), "");
}

LaunchSpec launched() {
  LaunchSpec spec;
  spec.uid = "m";
  spec.model_name = "qwen";
  spec.context = 512;
  spec.replicas = 2;
  spec.engine_options = {{"threads", "2"}};
  spec.env = {{"A", "1"}};
  return spec;
}

TEST(ChangedSpec, WhatIsNotNamedStays) {
  const LaunchSpec before = launched();
  const auto same = changed_spec(before, Json::object());
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->to_json(), before.to_json());
  const auto changed = changed_spec(before, {{"max_model_len", 64}, {"keep_alive", "5m"}, {"model_uid", "other"}});
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->uid, "m");
  EXPECT_EQ(changed->context, 64);
  EXPECT_EQ(changed->keep_alive_s, 300);
  EXPECT_EQ(changed->replicas, 2);
  EXPECT_EQ(changed->env, before.env);
  EXPECT_EQ(changed->engine_options, before.engine_options);
}

TEST(ChangedSpec, OptionsGoWithTheirEngine) {
  const auto moved = changed_spec(launched(), {{"model_engine", "vLLM"}});
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(moved->engine, "vllm");
  EXPECT_TRUE(moved->engine_options.empty());
  const auto told = changed_spec(launched(), {{"engine", "vllm"}, {"engine_options", {{"max_num_seqs", 4}}}});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->engine_options.at("max_num_seqs"), "4");
  EXPECT_FALSE(changed_spec(launched(), {{"context", -1}}));
  EXPECT_FALSE(changed_spec(launched(), Json::array()));
}

}  // namespace
}  // namespace quern::platform
