#include "platform/fleet/launch_spec.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

LaunchSpec read(const char* text) {
  const auto json = parse_json(text, "test");
  EXPECT_TRUE(json) << json.error().message;
  const auto spec = launch_spec_from_json(*json);
  EXPECT_TRUE(spec) << spec.error().message << " in " << text;
  return spec.value_or(LaunchSpec());
}

std::string spec_refusal(const char* text) {
  const auto spec = launch_spec_from_json(*parse_json(text, "test"));
  EXPECT_FALSE(spec) << text;
  if (spec) return "";
  EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  return spec.error().message;
}

// What the stock client sends when little is said.
TEST(LaunchSpec, XinferencesFieldsAreRead) {
  const LaunchSpec spec = read(R"({"model_uid": null, "model_name": "qwen2.5-coder", "model_engine": "vLLM",
    "peft_model_config": {"lora_list": [{"lora_name": "a", "local_path": "/a"}], "image_lora_load_kwargs": {}},
    "model_type": "LLM", "model_size_in_billions": "0_5", "model_format": "pytorch", "quantization": "none",
    "replica": 2, "n_worker": 1, "n_gpu": "auto", "request_limits": 5, "worker_ip": null, "gpu_idx": null,
    "replica_config": null, "model_path": null, "enable_thinking": null, "enable_virtual_env": null,
    "virtual_env_packages": null, "envs": {"A": "1"}, "max_num_seqs": 8, "enforce_eager": true})");
  EXPECT_EQ(spec.model_name, "qwen2.5-coder");
  EXPECT_EQ(spec.engine, "vllm");
  EXPECT_EQ(spec.model_type, "LLM");
  EXPECT_EQ(spec.size, "0_5");
  EXPECT_EQ(spec.format, "safetensors");
  EXPECT_EQ(spec.quantization, "");
  EXPECT_EQ(spec.replicas, 2);
  EXPECT_EQ(spec.request_limit, 5);
  EXPECT_EQ(spec.adapters.at(0).path, "/a");
  EXPECT_EQ(spec.env.at("A"), "1");
  EXPECT_EQ(spec.engine_options,
            (std::map<std::string, std::string>{{"enforce_eager", "true"}, {"max_num_seqs", "8"}}));
}

TEST(LaunchSpec, WordsOfOthersMeanOurs) {
  EXPECT_EQ(read(R"({"model_name": "m", "model_format": "ggufv2", "model_engine": "Transformers"})").format, "gguf");
  EXPECT_EQ(read(R"({"model_name": "m", "model_engine": "Transformers"})").engine, "quern");
  EXPECT_EQ(read(R"({"model_name": "m", "model_engine": "LLAMA.CPP"})").engine, "llama.cpp");
  EXPECT_EQ(read(R"({"model_name": "m"})").engine, "quern");
  const LaunchSpec quantized = read(R"({"model_name": "m", "model_format": "gptq", "quantization": "Int4"})");
  EXPECT_EQ(quantized.format, "safetensors");
  EXPECT_EQ(quantized.quantization, "gptq-int4");
  EXPECT_EQ(read(R"({"model_name": "m", "model_size_in_billions": 7})").size, "7");
  EXPECT_EQ(read(R"({"model_name": "m", "model_size_in_billions": 0.5})").size, "0.5");
  EXPECT_EQ(read(R"({"model_name": "m", "keep_alive": "5m"})").keep_alive_s, 300);
  EXPECT_EQ(read(R"({"model_name": "m", "keep_alive": -1})").keep_alive_s, -1);
  EXPECT_EQ(read(R"({"model_name": "m", "n_gpu": 0})").device, "cpu");
  EXPECT_EQ(read(R"({"model_name": "m", "gpu_idx": [0, 1], "model_engine": "vllm"})").device, "cuda:0,1");
  EXPECT_EQ(
      read(R"({"model_name": "m", "replica_config": [{"replica_uid": "a", "devices": []}, {"devices": []}]})").replicas,
      2);
}

TEST(LaunchSpec, ABadFieldIsRefusedByItsName) {
  EXPECT_EQ(spec_refusal(R"({})").substr(0, 10), "model_name");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "replica": 65})").substr(0, 7), "replica");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "replicas": "2"})").substr(0, 8), "replicas");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "model_uid": "a b"})").substr(0, 9), "model_uid");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "engine": "ollama"})").substr(0, 6), "engine");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "model_type": "video"})").substr(0, 10), "model_type");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "keep_alive": 0})").substr(0, 10), "keep_alive");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "keep_alive": "soon"})").substr(0, 10), "keep_alive");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "n_worker": 2})").substr(0, 8), "n_worker");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "n_gpu": 1})").substr(0, 5), "n_gpu");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "enable_thinking": true})").substr(0, 15), "enable_thinking");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "virtual_env_packages": ["x"]})").substr(0, 20),
            "virtual_env_packages");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "envs": {"A=B": "1"}})").substr(0, 8), "envs.A=B");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "adapters": [{"name": "a"}]})").substr(0, 16), "adapters[0].path");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "something": {"a": 1}})").substr(0, 9), "something");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "peft_model_config": {"lora_list": [], "x": 1}})").substr(0, 19),
            "peft_model_config.x");
  EXPECT_EQ(spec_refusal(R"({"model_name": "m", "some option": 1})").substr(0, 11), "some option");
}

TEST(LaunchSpec, WhatIsStoredIsReadAgain) {
  LaunchSpec spec =
      read(R"({"uid": "u", "model_name": "m", "model_type": "embedding", "model_path": "/p", "format": "gguf",
    "size": "0.5", "quantization": "q4_0", "engine": "sglang", "device": "cuda:1", "replicas": 3, "context": 100,
    "kv_cache_dtype": "q8_0", "adapters": [{"name": "a", "path": "/a"}], "engine_options": {"x": 1, "y": "z"},
    "env": {"E": "f"}, "node_labels": {"disk": "fast"}, "priority": -3, "pinned": true, "keep_alive_s": 2.5,
    "request_limit": 9, "trust_remote_code": true})");
  const auto again = stored_launch_spec(dump_json(spec.to_json()));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(dump_json(again->to_json()), dump_json(spec.to_json()));
  EXPECT_TRUE(stored_launch_spec(dump_json(LaunchSpec{.uid = "a", .model_name = "m"}.to_json())));
  EXPECT_FALSE(stored_launch_spec(R"({"model_name": "m"})"));
  EXPECT_FALSE(stored_launch_spec("no"));
}

}  // namespace
}  // namespace quern
