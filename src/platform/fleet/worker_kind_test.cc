#include "platform/fleet/worker_kind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "platform/fleet/device_wish.h"

namespace quern {
namespace {

bool has(const std::vector<std::string>& argv, const std::string& option, const std::string& value) {
  for (size_t i = 0; i + 1 < argv.size(); ++i) {
    if (argv[i] == option && argv[i + 1] == value) return true;
  }
  return false;
}

TEST(WorkerKind, OptionsBecomeArguments) {
  LaunchSpec spec{.uid = "u", .model_name = "m", .engine = "vllm", .context = 64};
  spec.engine_options = {{"max_num_seqs", "8"},
                         {"enforce_eager", "true"},
                         {"enable_prefix_caching", "false"},
                         {"chat_template", "a b; rm -rf $HOME"}};
  spec.env = {{"MY_FLAG", "1"}};
  const WorkerCommand command =
      worker_command(spec, {.program = "/bin/vllm", .model = "/m", .port = 4711, .api_key = "k", .mark = "f|u-0"});
  EXPECT_EQ(command.argv[0], "/bin/vllm");
  EXPECT_TRUE(has(command.argv, "--max-num-seqs", "8"));
  EXPECT_TRUE(has(command.argv, "--chat-template", "a b; rm -rf $HOME"));
  EXPECT_TRUE(has(command.argv, "--max-model-len", "64"));
  EXPECT_TRUE(has(command.argv, "--port", "4711"));
  EXPECT_NE(std::ranges::find(command.argv, "--enforce-eager"), command.argv.end());
  EXPECT_NE(std::ranges::find(command.argv, "--no-enable-prefix-caching"), command.argv.end());
  EXPECT_NE(std::ranges::find(command.environment, "VLLM_API_KEY=k"), command.environment.end());
  EXPECT_NE(std::ranges::find(command.environment, "MY_FLAG=1"), command.environment.end());
  EXPECT_NE(std::ranges::find(command.environment, "QUERN_FLEET_REPLICA=f|u-0"), command.environment.end());
  EXPECT_EQ(command.address, "http://127.0.0.1:4711");
  EXPECT_EQ(command.api_key, "k");
}

TEST(WorkerKind, OurOptionsAreThoseOfTheCommand) {
  const char* binary = std::getenv("QUERN_BINARY");
  if (binary == nullptr) GTEST_SKIP() << "SKIPPED: QUERN_BINARY names no program";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((std::string(binary) + " serve --help").c_str(), "r"),
                                                   ::pclose);
  std::string help;
  for (std::array<char, 4096> part; const size_t size = std::fread(part.data(), 1, part.size(), pipe.get());) {
    help.append(part.data(), size);
  }
  for (const std::string_view name : quern_engine_options()) {
    std::string option = "--" + std::string(name);
    std::ranges::replace(option, '_', '-');
    // Not as the beginning of another's name.
    bool found = false;
    for (size_t at = help.find(option); at != std::string::npos && !found; at = help.find(option, at + 1)) {
      const unsigned char next = at + option.size() < help.size() ? help[at + option.size()] : ' ';
      found = std::isalnum(next) == 0 && next != '-';
    }
    EXPECT_TRUE(found) << option;
  }
}

TEST(WorkerKind, ReplicasShareTheirDevices) {
  LaunchSpec spec{.device = "cuda:0,1,4,5", .replicas = 2};
  EXPECT_EQ(device_text(wished_devices(spec, 0)), "cuda:0,1");
  EXPECT_EQ(device_text(wished_devices(spec, 1)), "cuda:4,5");
  EXPECT_EQ(device_text(wished_devices(spec, 2)), "cuda:0,1") << "the one that replaces another";
  spec.replicas = 1;
  EXPECT_EQ(device_text(wished_devices(spec, 0)), "cuda:0,1,4,5");
  spec = {.uid = "u", .model_name = "m", .engine = "vllm", .device = "cuda:3"};
  const auto environment = worker_command(spec, {.program = "/v", .device = "cuda:3"}).environment;
  EXPECT_NE(std::ranges::find(environment, "CUDA_VISIBLE_DEVICES=3"), environment.end());
}

TEST(WorkerKind, AUrlIsSplitFromWhatRoutesBeginWith) {
  LaunchSpec spec{.uid = "u", .model_name = "gpt-x", .model_path = "https://host:8443/api/v1/", .engine = "openai"};
  spec.env = {{"OPENAI_API_KEY", "secret"}};
  ASSERT_TRUE(check_worker_spec(spec));
  const WorkerCommand command = worker_command(spec, {});
  EXPECT_TRUE(command.argv.empty());
  EXPECT_EQ(command.address, "https://host:8443");
  EXPECT_EQ(command.base_path, "/api");
  EXPECT_EQ(command.model, "gpt-x");
  EXPECT_EQ(command.api_key, "secret");
  spec.model_path = "http://127.0.0.1:1";
  EXPECT_EQ(worker_command(spec, {}).base_path, "");
}

TEST(WorkerKind, WhatCannotBeHonouredIsRefused) {
  const auto refused = [](LaunchSpec spec) {
    spec.uid = "u";
    if (spec.model_name.empty()) spec.model_name = "m";
    Status status = check_worker_spec(spec);
    if (status) status = check_worker_here(spec);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_NE(refused({.device = "cuda:0"}).find("device"), std::string::npos);
  EXPECT_NE(refused({.engine_options = {{"port", "1"}}}).find("engine_options.port"), std::string::npos);
  EXPECT_NE(refused({.engine_options = {{"max_seqs", "1"}}}).find("max_seqs"), std::string::npos);
  EXPECT_NE(refused({.env = {{"LD_PRELOAD", "x"}}}).find("env.LD_PRELOAD"), std::string::npos);
  EXPECT_NE(refused({.node_labels = {{"zone", "a"}}}).find("node_labels.zone"), std::string::npos);
  EXPECT_NE(refused({.model_type = "image"}).find("model_type"), std::string::npos);
  EXPECT_NE(refused({.model_path = "ftp://x", .engine = "openai"}).find("model_path"), std::string::npos);
  EXPECT_NE(refused({.format = "mlx"}).find("format"), std::string::npos);
}

// Seen with llama-server: a request that named no adapter was answered with the last one's.
TEST(WorkerKind, EachRequestToLlamaServerNamesTheScaleOfAllAdapters) {
  const auto calls = adapter_calls("llama.cpp", "m", {{"a", "/a"}, {"b", "/b"}});
  EXPECT_EQ(calls->at("b").fields, R"("lora":[{"id":0,"scale":0},{"id":1,"scale":1}])");
  EXPECT_EQ(calls->at("").fields, R"("lora":[{"id":0,"scale":0},{"id":1,"scale":0}])");
  EXPECT_FALSE(adapter_calls("vllm", "m", {{"a", "/a"}})->contains(""));
}

TEST(WorkerKind, WhatEnginesWouldTakeOtherwise) {
  LaunchSpec spec{.uid = "a:b", .engine = "llama.cpp", .context = 512, .engine_options = {{"parallel", "2"}}};
  const auto has = [&](const char* option, const char* value) {
    const auto argv = worker_command(spec, {.program = "p", .model = "f", .port = 1}).argv;
    const auto it = std::ranges::find(argv, option);
    return it != argv.end() && it + 1 != argv.end() && *(it + 1) == value;
  };
  EXPECT_TRUE(has("--ctx-size", "1024"));  // which it divides among two
  spec.engine_options["kv_unified"] = "true";
  EXPECT_TRUE(has("--ctx-size", "512"));
  spec = {.uid = "a:b", .engine = "sglang"};
  EXPECT_TRUE(has("--served-model-name", "a-b"));
  EXPECT_EQ(worker_command(spec, {.program = "p", .model = "f", .port = 1}).model, "a-b");
  EXPECT_EQ(adapter_calls("sglang", "a:b", {{"x", "/x"}})->at("x").model, "a-b:x");
}

}  // namespace
}  // namespace quern
