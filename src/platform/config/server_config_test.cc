#include "platform/config/server_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "platform/config/yaml_tree.h"

namespace quern {
namespace {

Result<ServerConfig> parse(std::string_view text) {
  return parse_server_config(text, "/etc/quern/quern.yaml");
}

std::string refusal_of(std::string_view text) {
  const auto config = parse(text);
  if (config) return "accepted";
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidFile);
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos) << config.error().message;
  return config.error().message;
}

TEST(ServerConfigTest, ReadsTheFormThatUsersWrite) {
  const auto config = parse(R"(compute:
  device: cpu            # also auto, cuda:0, metal, vulkan:0
quantization:
  mode: int8             # fp16, int4, hybrid
adapters:
  - path: lora/adapter1
    alpha: 0.7
)");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->device->text, "cpu");
  EXPECT_EQ(config->device->line, 2);
  EXPECT_EQ(config->quantization->text, "int8");
  ASSERT_EQ(config->adapters.size(), 1u);
  EXPECT_EQ(config->adapters[0].path.text, "/etc/quern/lora/adapter1");
  EXPECT_EQ(config->adapters[0].name.text, "adapter1");
  EXPECT_FLOAT_EQ(config->adapters[0].alpha, 0.7f);
}

TEST(ServerConfigTest, ReadsTheRest) {
  const auto config = parse(R"(model: ./a.gguf
models: [smollm2, /models/b.gguf]
quantization: {mode: hybrid, config: {attention: fp16, ffn: int8}}
adapters: [{path: x/y.gguf}, {path: /z/, name: two}]
serve:
  port: 9000
  cors: [https://a.example, https://b.example]
  "host": "::1"
)");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_EQ(config->models.size(), 3u);
  EXPECT_EQ(config->models[0].text, "/etc/quern/./a.gguf");
  EXPECT_EQ(config->models[1].text, "smollm2");
  EXPECT_EQ(config->models[2].text, "/models/b.gguf");
  EXPECT_EQ(config->quantization->text, "hybrid:attention=fp16,ffn=int8");
  EXPECT_EQ(config->adapters[0].name.text, "y");
  EXPECT_EQ(config->adapters[1].name.text, "two");
  EXPECT_EQ(config->adapters[1].alpha, 1.0f);
  ASSERT_EQ(config->serve.size(), 3u);
  EXPECT_EQ(config->serve[0].key, "serve.port");
  EXPECT_EQ(config->serve[0].line, 6);
  EXPECT_EQ(config->serve[1].list.size(), 2u);
  EXPECT_EQ(config->serve[2].text, "::1");
}

TEST(ServerConfigTest, NothingIsAConfiguration) {
  for (const char* text : {"", "\n\n", "# nothing\n", "---\n", "{}"}) EXPECT_TRUE(parse(text).has_value()) << text;
}

struct Case {
  const char* text;
  const char* words;
};

TEST(ServerConfigTest, RefusesByPathAndLine) {
  const Case cases[] = {
      {"compute:\n  devise: cpu\n", "/etc/quern/quern.yaml:2: compute.devise: unknown key; here may stand device"},
      {"compute:\n  devise:\n    a: 1\n", "quern.yaml:2: compute.devise: unknown key"},
      {"server: {}\n", "quern.yaml:1: server: unknown key"},
      {"compute: cpu\n", "quern.yaml:1: compute: is a value, must be a map"},
      {"compute:\n  device: [cpu]\n", "quern.yaml:2: compute.device: is a list, must be a value"},
      {"compute:\n  device:\n", "compute.device: is null, must be a value"},
      {"compute:\n  device: ''\n", "compute.device: is empty"},
      {"\n- a\n", "quern.yaml:2: the file: is a list, must be a map"},
      {"quantization: {}\n", "quantization.mode: is missing"},
      {"quantization: {mode: int3}\n", "quantization.mode: 'int3' is not one of none, fp16, int8, int4, hybrid"},
      {"quantization: {mode: int8, config: {}}\n", "quantization.config: only with mode: hybrid"},
      {"quantization: {mode: hybrid}\n", "quantization.config: is missing"},
      {"quantization: {mode: hybrid, config: {ffn: int8}}\n", "quantization.config.attention: is missing"},
      {"quantization: {mode: hybrid, config: {ffn: int8, attention: hybrid}}\n",
       "quantization.config.attention: 'hybrid' is not one of none, fp16, int8, int4"},
      {"quantization: {mode: hybrid, config: {mlp: int8}}\n", "quantization.config.mlp: unknown key"},
      {"adapters: {path: x}\n", "adapters: is a map, must be a list"},
      {"adapters: [x]\n", "adapters[0]: is a value, must be a map"},
      {"adapters:\n - alpha: 1\n", "adapters[0].path: is missing"},
      {"adapters:\n - path: a\n   alpha: much\n", "quern.yaml:3: adapters[0].alpha: 'much' is not a number"},
      {"adapters:\n - path: a\n   alpha: nan\n", "adapters[0].alpha: 'nan' is not a number"},
      {"adapters:\n - path: a\n   alpha: 1e9\n", "adapters[0].alpha: 1"},
      {"adapters:\n - path: a\n - path: b/a\n", "adapters[1].name: 'a' is the name of another adapter"},
      {"models: x\n", "models: is a value, must be a list"},
      {"serve: [1]\n", "serve: is a list, must be a map"},
      {"serve:\n  max-num-seqs: 1\n", "quern.yaml:2: serve.max-num-seqs: unknown key"},
      {"serve:\n  port: {a: 1}\n", "serve.port: is a map, must be a value"},
      {"serve:\n  port: 1\n  port: 2\n", "quern.yaml:3: the key 'port' stands twice"},
      {"compute: {device: cpu\n", "quern.yaml:"},
      {"a: !!python/object:x {}\n", "the tag"},
      {"a: 1\n---\nb: 2\n", "more than one document"},
      {"? [a]\n: b\n", "a key must be plain text"},
      {"a: &x [*x]\n", "an alias stands inside what it stands for"},
      {"a: *x\n", "quern.yaml:1: "},
  };
  for (const Case& one : cases) {
    const std::string message = refusal_of(one.text);
    EXPECT_NE(message.find(one.words), std::string::npos) << one.text << message;
  }
}

TEST(ServerConfigTest, AliasesAreCopies) {
  const auto config = parse("compute: &c {device: cpu}\nserve: {host: &h localhost, root_path: *h}\n");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->serve[1].text, "localhost");
}

TEST(YamlTreeTest, LimitsHold) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    laughs += fmt::format("a{0}: &a{0} [", i);
    for (int k = 0; k < 10; ++k) laughs += fmt::format("*a{}{}", i - 1, k < 9 ? "," : "]\n");
  }
  EXPECT_NE(refusal_of(laughs).find("more than 10000 values"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(20, '[')).find("levels deep"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(100000, '[')).find("levels deep"), std::string::npos);
  std::string nested = "a0: &a0 [x]\n";
  for (int i = 1; i < 20; ++i) nested += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  EXPECT_NE(refusal_of(nested).find("levels deep"), std::string::npos);
  EXPECT_NE(refusal_of("a: " + std::string(5000, 'x')).find("more than 4096 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(300000, '\n')).find("more than 262144 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(std::string("a: 1\nb: \0", 9)).find("quern.yaml:2: a zero byte"), std::string::npos);
}

}  // namespace
}  // namespace quern
