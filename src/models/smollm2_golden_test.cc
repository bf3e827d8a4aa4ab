// A real model, SmolLM2-135M-Instruct in Q4_1: run when QUERN_TEST_MODELS names the folder that has the file.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "base/json.h"
#include "models/golden_runner.h"
#include "tensor/dequantize.h"

namespace quern::testing {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(QUERN_TEST_DATA) / "golden" / "smollm2";

class Smollm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("QUERN_TEST_MODELS");
    const std::filesystem::path path =
        std::filesystem::path(folder == nullptr ? "" : folder) / "SmolLM2-135M-Instruct.Q4_1.gguf";
    if (folder == nullptr || !std::filesystem::exists(path)) {
      GTEST_SKIP() << "SKIPPED: set QUERN_TEST_MODELS to the folder of SmolLM2-135M-Instruct.Q4_1.gguf";
    }
    std::ifstream file(kFolder / "golden.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto json = parse_json(text, "golden.json");
    ASSERT_TRUE(json.has_value());
    golden_ = std::move(*json);
    auto tensors = SafetensorsFile::open(kFolder / "golden.safetensors");
    ASSERT_TRUE(tensors.has_value()) << tensors.error().message;
    tensors_ = std::move(*tensors);
    loaded_ = load(path, "cpu");
    ASSERT_NE(loaded_.model, nullptr);
    vocab_ = static_cast<size_t>(loaded_.model->config().vocab_size);
  }

  std::vector<float> floats(const std::string& name) {
    const TensorView* view = tensors_->find(name);
    EXPECT_NE(view, nullptr) << name;
    std::vector<float> values(static_cast<size_t>(view->elements()));
    dequantize(view->dtype, view->bytes.data(), values.data(), view->elements());
    return values;
  }

  Json golden_;
  std::unique_ptr<SafetensorsFile> tensors_;
  LoadedModel loaded_;
  size_t vocab_ = 0;
};

TEST_F(Smollm2Test, LogitsAndContinuations) {
  const size_t top = golden_["top"].get<size_t>();
  DecoderRunner runner(*loaded_.model, *loaded_.device, 1, 160);
  for (const Json& prompt : golden_["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    runner.reset();
    std::vector<float> logits = runner.step({{0, ids, static_cast<int32_t>(ids.size())}});
    const std::vector<float> top_ids = floats(prompt["top_ids"].get<std::string>());
    const std::vector<float> top_logits = floats(prompt["top_logits"].get<std::string>());
    for (size_t i = 0; i < top_ids.size(); ++i) {
      const size_t row = i / top;
      EXPECT_NEAR(logits[row * vocab_ + static_cast<size_t>(top_ids[i])], top_logits[i], 5e-4) << "row " << row;
    }
    const auto expected = prompt["greedy"].get<std::vector<int32_t>>();
    std::vector<int32_t> generated;
    while (generated.size() < expected.size()) {
      generated.push_back(argmax(logits.data() + logits.size() - vocab_, static_cast<int32_t>(vocab_)));
      logits = runner.step({{0, {generated.back()}, static_cast<int32_t>(ids.size())}});
    }
    EXPECT_EQ(generated, expected);
  }
}

TEST_F(Smollm2Test, NegativeLogLikelihoodOfText) {
  constexpr size_t kTokens = 512;
  const std::vector<float> ids = floats(golden_["text"]["ids"].get<std::string>());
  const std::vector<float> expected = floats(golden_["text"]["nll"].get<std::string>());
  DecoderRunner runner(*loaded_.model, *loaded_.device, 1, kTokens);
  const std::vector<int32_t> prompt(ids.begin(), ids.begin() + kTokens);
  const std::vector<float> logits = run_chunked(runner, 0, prompt, 128);
  double sum = 0.0, expected_sum = 0.0;
  for (size_t row = 0; row + 1 < kTokens; ++row) {
    const float* values = &logits[row * vocab_];
    double total = 0.0;
    for (size_t i = 0; i < vocab_; ++i) total += std::exp(static_cast<double>(values[i]));
    sum += std::log(total) - values[prompt[row + 1]];
    expected_sum += expected[row];
  }
  EXPECT_NEAR(sum / (kTokens - 1), expected_sum / (kTokens - 1), 1e-4);
}

}  // namespace
}  // namespace quern::testing
