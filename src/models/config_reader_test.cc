#include "models/config_reader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"

namespace quern {
namespace {

Json json(const char* text) {
  return std::move(*parse_json(text, "test"));
}

std::string error_of(const ConfigReader& reader) {
  const Status status = reader.status();
  return status ? "" : status.error().message;
}

TEST(HfConfigReaderTest, FirstNamePresentWins) {
  const Json config = json(R"({"n_layer": 3, "num_hidden_layers": null})");
  HfConfigReader reader(config);
  EXPECT_EQ(reader.require_int({"num_hidden_layers", "n_layer"}, {1, 10}), 3);
  EXPECT_EQ(error_of(reader), "");
}

TEST(HfConfigReaderTest, DotsGoIntoObjects) {
  const Json config = json(R"({"rope_scaling": {"factor": 8}})");
  HfConfigReader reader(config);
  EXPECT_EQ(reader.float_or({"rope_scaling.factor"}, 1.0f, 0.0, 100.0), 8.0f);
  EXPECT_FALSE(reader.has("rope_scaling.factor.more"));
}

TEST(HfConfigReaderTest, RefusesWithKeyAndNumber) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {R"({})", "heads is missing"},
      {R"({"heads": 0})", "heads is 0, must be 1 to 64"},
      {R"({"heads": -1})", "heads is -1, must be 1 to 64"},
      {R"({"heads": 18446744073709551615})", "heads is 9223372036854775807, must be 1 to 64"},
      {R"({"heads": 2.5})", "heads is not an integer"},
      {R"({"heads": "four"})", "heads is not an integer"},
      {R"({"heads": {}})", "heads is not an integer"},
      {R"({"heads": []})", "heads is empty"},
  };
  for (const auto& test : cases) {
    const Json config = json(test.text);
    HfConfigReader reader(config);
    EXPECT_EQ(reader.require_int({"heads"}, {1, 64}), 1) << test.text;
    EXPECT_EQ(error_of(reader), test.message);
  }
}

TEST(HfConfigReaderTest, ValuesThatDifferBetweenLayersAreUnsupported) {
  const Json config = json(R"({"heads": [4, 8]})");
  HfConfigReader reader(config);
  reader.require_int({"heads"}, {1, 64});
  EXPECT_EQ(reader.status().error().code, ErrorCode::kUnsupported);
}

TEST(HfConfigReaderTest, KeepsTheFirstError) {
  const Json config = json(R"({"a": 0, "b": 0})");
  HfConfigReader reader(config);
  reader.require_int({"a"}, {1, 2});
  reader.require_int({"b"}, {1, 2});
  EXPECT_EQ(error_of(reader), "a is 0, must be 1 to 2");
}

TEST(GgufConfigReaderTest, PutsTheArchitectureBeforeKeys) {
  GgufMetadata metadata;
  metadata.set("llama.block_count", GgufValue{4, uint64_t{5}});
  metadata.set("tokenizer.ggml.bos_token_id", GgufValue{4, uint64_t{7}});
  GgufConfigReader reader(metadata, "llama", nullptr);
  EXPECT_EQ(reader.require_int({"block_count"}, {1, 10}), 5);
  EXPECT_EQ(reader.require_int({"tokenizer.ggml.bos_token_id"}, {1, 10}), 7);
  EXPECT_FALSE(reader.has_tensor("output.weight"));
  reader.require_int({"embedding_length"}, {1, 10});
  EXPECT_EQ(error_of(reader), "llama.embedding_length is missing");
}

TEST(GgufConfigReaderTest, RefusesNotANumber) {
  GgufMetadata metadata;
  metadata.set("llama.eps", GgufValue{6, std::nan("")});
  GgufConfigReader reader(metadata, "llama", nullptr);
  reader.float_or({"eps"}, 1.0f, 0.0, 1.0);
  EXPECT_EQ(error_of(reader), "llama.eps is nan, must be 0 to 1");
}

}  // namespace
}  // namespace quern
