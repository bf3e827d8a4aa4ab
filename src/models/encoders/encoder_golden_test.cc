// Encoders against the results of the official implementations (tests/golden), on every device there is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "formats/safetensors/safetensors_file.h"
#include "models/loader.h"

namespace quern {
namespace {

constexpr double kTolerance = 1e-4;  // tests/golden/README.md, "embeddings, scores"

std::filesystem::path golden_path() {
  return std::filesystem::path(QUERN_TEST_DATA) / "golden";
}

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto json = parse_json(text.str(), path.string());
  EXPECT_TRUE(json) << (json ? "" : json.error().message);
  return json ? std::move(*json) : Json::object();
}

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr || view->dtype != DType::kF32) {
    ADD_FAILURE() << "no float32 tensor " << name;
    return {};
  }
  std::vector<float> values(static_cast<size_t>(view->elements()));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
  EXPECT_LE(worst, kTolerance) << what;
}

std::unique_ptr<Device> make_device(const std::string&) {
  return make_reference_device();
}

struct Case {
  std::string weights;    // path under tests/golden
  std::string reference;  // folder with golden.json
  std::string embedding;  // key of "outputs" the embedding must equal; empty for classifiers
};

class EncoderGolden : public ::testing::TestWithParam<std::tuple<Case, std::string>> {
 protected:
  void SetUp() override {
    const auto& [test, device_name] = GetParam();
    device_ = make_device(device_name);
    ASSERT_NE(device_, nullptr);
    auto source = open_model_source(golden_path() / test.weights);
    ASSERT_TRUE(source) << source.error().message;
    source_ = std::move(*source);
    auto model = load_encoder(*source_, *device_, Precision::kExact);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    golden_ = read_json(golden_path() / test.reference / "golden.json");
    for (const Json& entry : golden_["inputs"]) {
      ids_.push_back(entry["ids"].get<std::vector<int32_t>>());
      types_.push_back(entry.contains("token_type_ids") ? entry["token_type_ids"].get<std::vector<int32_t>>()
                                                        : std::vector<int32_t>{});
    }
  }

  std::vector<EncoderInput> inputs() const {
    std::vector<EncoderInput> inputs;
    for (size_t i = 0; i < ids_.size(); ++i) inputs.push_back({ids_[i], types_[i]});
    return inputs;
  }

  std::unique_ptr<ModelSource> source_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<EncoderModel> model_;
  Json golden_;
  std::vector<std::vector<int32_t>> ids_, types_;
};

TEST_P(EncoderGolden, GivesTheOfficialResults) {
  const Case& test = std::get<0>(GetParam());
  auto tensors = SafetensorsFile::open(golden_path() / test.reference / "golden.safetensors");
  ASSERT_TRUE(tensors) << tensors.error().message;
  auto outputs = model_->forward(inputs(), true);
  ASSERT_TRUE(outputs) << outputs.error().message;
  ASSERT_EQ(outputs->size(), golden_["inputs"].size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    const Json& entry = golden_["inputs"][i];
    const auto name = entry["name"].get<std::string>();
    const EncoderModel::Output& output = (*outputs)[i];
    if (test.embedding.empty()) {
      expect_near(output.scores, floats_of(**tensors, entry["logits"].get<std::string>()), name + " scores");
      EXPECT_TRUE(output.embedding.empty());
    } else {
      const Json& keys = entry["outputs"];
      expect_near(output.last_hidden_state, floats_of(**tensors, keys["last_hidden_state"].get<std::string>()),
                  name + " last_hidden_state");
      expect_near(output.embedding, floats_of(**tensors, keys[test.embedding].get<std::string>()),
                  name + " " + test.embedding);
      EXPECT_TRUE(output.scores.empty());
    }
  }
}

TEST_P(EncoderGolden, ABatchEqualsSingleRunsBitForBit) {
  auto together = model_->forward(inputs(), true);
  ASSERT_TRUE(together);
  for (size_t i = 0; i < ids_.size(); ++i) {
    const EncoderInput input = inputs()[i];
    auto alone = model_->forward({&input, 1}, true);
    ASSERT_TRUE(alone);
    EXPECT_EQ((*alone)[0].last_hidden_state, (*together)[i].last_hidden_state);
    EXPECT_EQ((*alone)[0].embedding, (*together)[i].embedding);
    EXPECT_EQ((*alone)[0].scores, (*together)[i].scores);
  }
}

TEST_P(EncoderGolden, HiddenStatesOnlyOnRequest) {
  auto outputs = model_->forward(inputs(), false);
  ASSERT_TRUE(outputs);
  for (const EncoderModel::Output& output : *outputs) EXPECT_TRUE(output.last_hidden_state.empty());
}

TEST_P(EncoderGolden, RefusesInputsByName) {
  const int32_t limit = model_->config().context_length;
  const auto message_of = [&](std::vector<int32_t> ids, std::vector<int32_t> types) {
    const EncoderInput input = {ids, types};
    auto outputs = model_->forward({&input, 1}, false);
    if (outputs) return std::string("accepted");
    EXPECT_EQ(outputs.error().code, ErrorCode::kInvalidArgument);
    return outputs.error().message;
  };
  const std::vector<int32_t> longest(static_cast<size_t>(limit), 5);
  std::vector<int32_t> longer = longest;
  longer.push_back(5);
  EXPECT_EQ(message_of(longest, {}), "accepted");
  EXPECT_NE(message_of(longer, {}).find("at most " + std::to_string(limit)), std::string::npos);
  EXPECT_NE(message_of({}, {}).find("no tokens"), std::string::npos);
  EXPECT_NE(message_of({5, 320}, {}).find("320"), std::string::npos);
  EXPECT_NE(message_of({5, -1}, {}).find("-1"), std::string::npos);
  EXPECT_NE(message_of({5, 6}, {0}).find("1 type ids for 2 tokens"), std::string::npos);
  EXPECT_NE(message_of({5, 6}, {0, 7}).find("type id 7"), std::string::npos);
}

const Case kCases[] = {
    {"models/bert", "models/bert", "mean_normalized"},
    {"models/xlm_roberta_rerank", "models/xlm_roberta_rerank", ""},
    {"gguf/bert-f32.gguf", "models/bert", "mean_normalized"},
    {"families/bert_rerank", "families/bert_rerank", ""},
    {"families/bert_classify", "families/bert_classify", ""},
    {"families/roberta_classify", "families/roberta_classify", ""},
    {"families/xlm_roberta", "families/xlm_roberta", "embedding"},
    {"families/distilbert", "families/distilbert", "embedding"},
    {"families/nomic_bert", "families/nomic_bert", "embedding"},
    {"families/modernbert", "families/modernbert", "embedding"},
    {"families/modernbert_rerank", "families/modernbert_rerank", ""},
};

INSTANTIATE_TEST_SUITE_P(All, EncoderGolden,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values("reference")),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param).weights + "_" + std::get<1>(info.param);
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace quern
