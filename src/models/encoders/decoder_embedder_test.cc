// A causal language model as an embedding model: its last final state, whatever else is in the call.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "formats/safetensors/safetensors_file.h"
#include "models/encoders/pooling.h"
#include "models/loader.h"

namespace quern {
namespace {

class DecoderEmbedderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = std::filesystem::path(QUERN_TEST_DATA) / "golden" / "models" / "llama";
    auto source = open_model_source(folder);
    ASSERT_TRUE(source) << source.error().message;
    source_ = std::move(*source);
    device_ = make_reference_device();
    auto model = load_encoder(*source_, *device_, Precision::kExact);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    auto golden = SafetensorsFile::open(folder / "golden.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    golden_ = std::move(*golden);
  }

  std::unique_ptr<ModelSource> source_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<EncoderModel> model_;
  std::unique_ptr<SafetensorsFile> golden_;
  const std::vector<int32_t> p7_ = {1, 169, 308, 213, 144, 212, 240};
};

TEST_F(DecoderEmbedderTest, PoolsTheLastFinalState) {
  const TensorView* view = golden_->find("final");  // [7, 64]
  ASSERT_NE(view, nullptr);
  std::vector<float> want(64);
  std::memcpy(want.data(), view->bytes.data() + 6 * 64 * sizeof(float), 64 * sizeof(float));
  normalize_l2(want);
  const EncoderInput input = {p7_, {}};
  auto outputs = model_->forward({&input, 1}, true);
  ASSERT_TRUE(outputs) << outputs.error().message;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR((*outputs)[0].embedding[i], want[i], 1e-5);
  EXPECT_EQ((*outputs)[0].last_hidden_state.size(), 7u * 64u);
}

TEST_F(DecoderEmbedderTest, ABatchEqualsSingleRunsBitForBit) {
  std::vector<int32_t> longer(40, 9);
  const EncoderInput inputs[] = {{longer, {}}, {p7_, {}}};
  auto together = model_->forward(inputs, false);
  ASSERT_TRUE(together);
  for (size_t i = 0; i < 2; ++i) {
    auto alone = model_->forward({&inputs[i], 1}, false);
    ASSERT_TRUE(alone);
    EXPECT_EQ((*alone)[0].embedding, (*together)[i].embedding);
  }
}

TEST_F(DecoderEmbedderTest, RefusesInputsByName) {
  const std::vector<int32_t> outside = {320}, types = {1}, one = {9};
  for (const auto& [input, words] : {std::pair<EncoderInput, const char*>{{outside, {}}, "320"},
                                     {{one, types}, "no token types"},
                                     {{{}, {}}, "no tokens"}}) {
    auto outputs = model_->forward({&input, 1}, false);
    ASSERT_FALSE(outputs);
    EXPECT_EQ(outputs.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(outputs.error().message.find(words), std::string::npos) << outputs.error().message;
  }
}

}  // namespace
}  // namespace quern
