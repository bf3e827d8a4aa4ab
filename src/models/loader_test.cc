// What the loader refuses, and with which words.
#include "models/loader.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace quern {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(QUERN_TEST_DATA) / "golden";

Error load_error(const std::filesystem::path& path) {
  auto source = open_model_source(path);
  if (!source) return source.error();
  const std::unique_ptr<Device> device = make_reference_device();
  auto model = load_decoder(**source, *device, Precision::kExact);
  EXPECT_FALSE(model.has_value()) << path << " was loaded";
  return model ? Error{} : model.error();
}

TEST(LoaderTest, LoadsTheFileThatTheBrokenOnesComeFrom) {
  auto source = open_model_source(kGolden / "malformed" / "valid.gguf");
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const std::unique_ptr<Device> device = make_reference_device();
  auto model = load_decoder(**source, *device, Precision::kExact);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ((*model)->config().num_layers, 1);
  EXPECT_EQ((*model)->config().vocab_size, 16);
}

struct Refusal {
  const char* file;
  const char* words;
};
class LoaderRefusalTest : public ::testing::TestWithParam<Refusal> {};
TEST_P(LoaderRefusalTest, NamesWhatIsWrong) {
  const Error error = load_error(kGolden / "malformed" / GetParam().file);
  EXPECT_EQ(error.code, ErrorCode::kInvalidFile);
  EXPECT_NE(error.message.find(GetParam().words), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(GetParam().file), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
}
INSTANTIATE_TEST_SUITE_P(
    Malformed, LoaderRefusalTest,
    ::testing::Values(Refusal{"gguf_head_count_zero.gguf", "llama.attention.head_count is 0, must be 1 to 4096"},
                      Refusal{"gguf_block_count_huge.gguf", "llama.block_count is 2147483648, must be 1 to 1024"},
                      Refusal{"gguf_wrong_shape.gguf",
                              "tensor blk.0.attn_q.weight has shape [4, 8], the configuration requires [8, 8]"}),
    [](const auto& info) {
      std::string name = info.param.file;
      return name.substr(0, name.find('.'));
    });

TEST(LoaderTest, RefusesEveryMalformedFile) {
  int32_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden / "malformed")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("gguf_") && !name.starts_with("index_")) continue;
    EXPECT_FALSE(load_error(entry.path()).message.empty()) << name;
    ++count;
  }
  EXPECT_GE(count, 27);
}

}  // namespace
}  // namespace quern
