// Every decoder fixture against the results of the official implementation, from both kinds of files, on both devices.
#include <algorithm>
#include <fstream>

#include "models/golden_runner.h"

namespace quern::testing {
namespace {

const std::filesystem::path kGoldenFolder = std::filesystem::path(QUERN_TEST_DATA) / "golden";

struct Case {
  std::string device;
  std::string model;
};
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.device + "_" + info.param.model;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class HfGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(HfGoldenTest, MatchesOfficialImplementation) {
  const std::filesystem::path folder = kGoldenFolder / "models" / GetParam().model;
  check_golden_model(read_golden_folder(folder, folder), GetParam().device);
}

class FamilyGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(FamilyGoldenTest, MatchesOfficialImplementation) {
  const std::filesystem::path folder = kGoldenFolder / "families" / GetParam().model;
  check_golden_model(read_golden_folder(folder, folder), GetParam().device);
}

class GgufGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(GgufGoldenTest, MatchesOfficialImplementation) {
  check_golden_model(read_golden_gguf(kGoldenFolder / "gguf" / "golden.json", GetParam().model), GetParam().device);
}

// families/gguf/NAME.gguf and NAME-VARIANT.gguf hold the weights of families/NAME.
class FamilyGgufGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(FamilyGgufGoldenTest, MatchesOfficialImplementation) {
  const std::filesystem::path families = kGoldenFolder / "families";
  const std::string name = GetParam().model.substr(0, GetParam().model.find('-'));
  check_golden_model(read_golden_folder(families / name, families / "gguf" / (GetParam().model + ".gguf")),
                     GetParam().device);
}

// Folders of decoders under `folder`: a fixture is tested by being there.
std::vector<std::string> decoder_folders(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path() / "golden.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find("\"task\": \"causal-lm\"") != std::string::npos) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> family_ggufs() {
  const std::vector<std::string> folders = decoder_folders(kGoldenFolder / "families");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenFolder / "families" / "gguf")) {
    const std::string stem = entry.path().stem().string();
    if (std::ranges::find(folders, stem.substr(0, stem.find('-'))) != folders.end()) names.push_back(stem);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<Case> on_devices(const std::vector<std::string>& models) {
  std::vector<Case> cases;
  for (const char* device : {"reference", "cpu"}) {
    for (const std::string& model : models) cases.push_back({device, model});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, HfGoldenTest, ::testing::ValuesIn(on_devices(decoder_folders(kGoldenFolder / "models"))),
                         case_name);
INSTANTIATE_TEST_SUITE_P(All, FamilyGoldenTest,
                         ::testing::ValuesIn(on_devices(decoder_folders(kGoldenFolder / "families"))), case_name);
INSTANTIATE_TEST_SUITE_P(All, GgufGoldenTest,
                         ::testing::ValuesIn(on_devices({"deepseek_v3-f32.gguf", "gemma2-f32.gguf", "gemma3-f32.gguf",
                                                         "gpt2-f32.gguf", "gpt_oss-f32.gguf", "gpt_oss_mxfp4-f32.gguf",
                                                         "llama-f32.gguf", "llama-split-f32-00001-of-00002.gguf",
                                                         "llama_mixed.gguf", "mistral-f32.gguf", "mixtral-f32.gguf",
                                                         "phi3-f32.gguf", "qwen2-f32.gguf", "qwen3-f32.gguf"})),
                         case_name);

INSTANTIATE_TEST_SUITE_P(All, FamilyGgufGoldenTest, ::testing::ValuesIn(on_devices(family_ggufs())), case_name);

TEST(GoldenFixturesTest, AreThere) {
  EXPECT_GE(decoder_folders(kGoldenFolder / "models").size(), 13u);
  EXPECT_GE(decoder_folders(kGoldenFolder / "families").size(), 29u);
  EXPECT_GE(family_ggufs().size(), 20u);
}

}  // namespace
}  // namespace quern::testing
