// Every decoder fixture against the results of the official implementation, from both kinds of files, on both devices.
#include "models/golden_runner.h"

namespace quern::testing {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(QUERN_TEST_DATA) / "golden";

struct Case {
  const char* device;
  const char* model;
};
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.device) + "_" + info.param.model;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class HfGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(HfGoldenTest, MatchesOfficialImplementation) {
  const std::filesystem::path folder = kGolden / "models" / GetParam().model;
  check_golden_model(read_golden_folder(folder, folder), GetParam().device);
}

class FamilyGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(FamilyGoldenTest, MatchesOfficialImplementation) {
  const std::filesystem::path folder = kGolden / "families" / GetParam().model;
  check_golden_model(read_golden_folder(folder, folder), GetParam().device);
}

class GgufGoldenTest : public ::testing::TestWithParam<Case> {};
TEST_P(GgufGoldenTest, MatchesOfficialImplementation) {
  check_golden_model(read_golden_gguf(kGolden / "gguf" / "golden.json", GetParam().model), GetParam().device);
}

std::vector<Case> on_devices(std::vector<const char*> models) {
  std::vector<Case> cases;
  for (const char* device : {"reference", "cpu"}) {
    for (const char* model : models) cases.push_back({device, model});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, HfGoldenTest,
                         ::testing::ValuesIn(on_devices({"deepseek_v3", "gemma2", "gemma3", "gpt2", "gpt_oss",
                                                         "gpt_oss_mxfp4", "llama", "mistral", "mixtral", "phi3",
                                                         "qwen2", "qwen3", "qwen3_moe"})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(All, FamilyGoldenTest,
                         ::testing::ValuesIn(on_devices({"falcon", "falcon_new", "falcon_new_one_norm", "gemma", "glm",
                                                         "glm4", "gpt_neox", "gpt_neox_serial", "olmo2", "phi",
                                                         "stablelm", "stablelm_parallel", "starcoder2"})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(All, GgufGoldenTest,
                         ::testing::ValuesIn(on_devices({"deepseek_v3-f32.gguf", "gemma2-f32.gguf", "gemma3-f32.gguf",
                                                         "gpt2-f32.gguf", "gpt_oss-f32.gguf", "gpt_oss_mxfp4-f32.gguf",
                                                         "llama-f32.gguf", "llama-split-f32-00001-of-00002.gguf",
                                                         "llama_mixed.gguf", "mistral-f32.gguf", "mixtral-f32.gguf",
                                                         "phi3-f32.gguf", "qwen2-f32.gguf", "qwen3-f32.gguf"})),
                         case_name);

}  // namespace
}  // namespace quern::testing
