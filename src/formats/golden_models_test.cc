// The golden checkpoints open, whole, split and sharded, and hold the same names.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_folder.h"
#include "formats/hf_folder.h"
#include "formats/safetensors/safetensors_file.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
const fs::path kGolden = fs::path(QUERN_TEST_DATA) / "golden";

TEST(GoldenGguf, SplitSetHoldsTheWholeFilesTensors) {
  const auto whole = GgufFile::open(kGolden / "gguf" / "llama-f32.gguf");
  const auto split = GgufFile::open(kGolden / "gguf" / "llama-split-f32-00001-of-00002.gguf");
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ((*whole)->num_parts(), 1u);
  EXPECT_EQ((*split)->num_parts(), 2u);
  ASSERT_EQ((*whole)->tensors().size(), (*split)->tensors().size());
  for (const TensorView& tensor : (*whole)->tensors()) {
    const TensorView* same = (*split)->find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(same->bytes, tensor.bytes)) << tensor.name;
  }
}

TEST(GoldenGguf, AnyPartOfASplitSetOpensAllOfIt) {
  const auto first = GgufFile::open(kGolden / "gguf" / "llama-split-f32-00001-of-00002.gguf");
  const auto second = GgufFile::open(kGolden / "gguf" / "llama-split-f32-00002-of-00002.gguf");
  ASSERT_TRUE(first);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ((*second)->num_parts(), 2u);
  EXPECT_EQ((*second)->tensors().size(), (*first)->tensors().size());
  EXPECT_TRUE((*second)->metadata().get_string("general.architecture"));
}

TEST(GoldenGguf, NamesOfParts) {
  EXPECT_EQ(gguf_model_name("a/best-of-breed.gguf"), "best-of-breed");
  EXPECT_EQ(gguf_model_name("m-00001-of-00003.gguf"), "m");
  EXPECT_EQ(gguf_model_name("m-0001-of-00003.gguf"), "m-0001-of-00003");
  EXPECT_EQ(gguf_model_name("-00001-of-00001.gguf"), "-00001-of-00001");
  const auto name = gguf_part_name("a/m-00002-of-00003.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a/m");
  EXPECT_EQ(name->part, 2);
  EXPECT_EQ(name->num_parts, 3);
  EXPECT_EQ(name->file_of(1), "a/m-00001-of-00003.gguf");
  for (const char* none : {"m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-0001-of-00003.gguf",
                           "m-00001-of-00003.bin", "-00001-of-00001.gguf", "m-00001_of-00003.gguf"}) {
    EXPECT_FALSE(gguf_part_name(none)) << none;
  }
}

TEST(GoldenGguf, EveryFileOpensAndHasAnArchitecture) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kGolden / "gguf")) {
    if (entry.path().extension() != ".gguf" || entry.path().string().find("00002-of") != std::string::npos) continue;
    const auto file = GgufFile::open(entry.path());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_FALSE((*file)->tensors().empty());
    EXPECT_TRUE((*file)->metadata().get_string("general.architecture")) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 15);
}

TEST(GoldenFolders, EveryCheckpointOpens) {
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(kGolden / "models")) {
    if (!entry.is_directory()) continue;
    const auto folder = open_hf_folder(entry.path());
    ASSERT_TRUE(folder) << folder.error().message;
    EXPECT_TRUE(folder->config.contains("model_type")) << entry.path();
    const auto weights = SafetensorsFile::open(entry.path());
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_FALSE((*weights)->tensors().empty());
    ++folders;
  }
  EXPECT_GE(folders, 15);
}

TEST(GoldenFolders, ShardsOfAnIndexAreOneFile) {
  const auto weights = SafetensorsFile::open(kGolden / "models" / "mixtral");
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_NE((*weights)->find("model.embed_tokens.weight"), nullptr);
  EXPECT_NE((*weights)->find("lm_head.weight"), nullptr);
  EXPECT_EQ((*weights)->metadata().at("format"), "pt");
}

TEST(GoldenFolders, SentenceTransformersFilesAreRead) {
  const auto folder = open_hf_folder(kGolden / "models" / "bert");
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_TRUE(folder->modules.is_array());
  EXPECT_TRUE(folder->pooling.is_object());
  EXPECT_TRUE(folder->generation_config.is_null());
  ASSERT_TRUE(folder->tokenizer_json);
  EXPECT_TRUE(fs::exists(*folder->tokenizer_json));
}

TEST(GoldenFolders, ChatTemplateComesFromTheTokenizerConfig) {
  const auto folder = open_hf_folder(kGolden / "models" / "llama");
  ASSERT_TRUE(folder) << folder.error().message;
  ASSERT_TRUE(folder->chat_template);
  EXPECT_NE(folder->chat_template->find("{%"), std::string::npos);
}

TEST(GoldenFolders, FolderWithoutConfigIsNotFound) {
  const auto folder = open_hf_folder(kGolden / "gguf");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace quern
