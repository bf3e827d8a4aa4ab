// Configurations of encoders: what sentence-transformers files say, and what is refused, by name.
#include "models/encoders/encoder_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/encoders/pooling.h"

namespace quern {
namespace {

Json bert_config() {
  return {{"model_type", "bert"},    {"architectures", {"BertModel"}}, {"vocab_size", 320},
          {"hidden_size", 48},       {"num_hidden_layers", 2},         {"num_attention_heads", 4},
          {"intermediate_size", 96}, {"max_position_embeddings", 64},  {"type_vocab_size", 2}};
}

Json module_of(const char* type) {
  return {{"type", type}};
}

Result<EncoderConfig> read(Json config, Json modules = nullptr, Json pooling = nullptr) {
  ModelSource source;
  source.folder = std::make_unique<HfFolder>();
  source.folder->config = std::move(config);
  source.folder->modules = std::move(modules);
  source.folder->pooling = std::move(pooling);
  return read_encoder_config(source);
}

Result<EncoderConfig> read_with(const char* key, Json value, Json config = bert_config()) {
  config[key] = std::move(value);
  return read(std::move(config));
}

void expect_refused(const Result<EncoderConfig>& config, ErrorCode code, const std::string& words) {
  ASSERT_FALSE(config) << "expected: " << words;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_NE(config.error().message.find(words), std::string::npos) << config.error().message;
}

TEST(EncoderConfig, ReadsPoolingAsTheFolderSays) {
  auto plain = read(bert_config());
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->pooling, Pooling::kMean);
  EXPECT_TRUE(plain->normalize);

  const Json modules = {module_of("sentence_transformers.models.Transformer"),
                        module_of("sentence_transformers.models.Pooling")};
  auto cls = read(bert_config(), modules, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}});
  ASSERT_TRUE(cls);
  EXPECT_EQ(cls->pooling, Pooling::kFirst);
  EXPECT_FALSE(cls->normalize);

  auto newer = read(bert_config(), modules, {{"pooling_mode", "lasttoken"}});
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->pooling, Pooling::kLast);
}

TEST(EncoderConfig, RefusesWhatSentenceFilesAskForInVain) {
  const Json dense = {module_of("sentence_transformers.models.Transformer"),
                      module_of("sentence_transformers.models.Dense")};
  expect_refused(read(bert_config(), dense), ErrorCode::kUnsupported, "sentence_transformers.models.Dense");
  expect_refused(read(bert_config(), Json::array({Json::object()})), ErrorCode::kInvalidFile, "modules.json");
  expect_refused(read(bert_config(), nullptr, {{"pooling_mode_weightedmean_tokens", true}}), ErrorCode::kUnsupported,
                 "weightedmean");
  expect_refused(read(bert_config(), nullptr, {{"pooling_mode_cls_token", true}, {"pooling_mode_max_tokens", true}}),
                 ErrorCode::kUnsupported, "max together with cls");
}

TEST(EncoderConfig, RefusesImpossibleNumbers) {
  expect_refused(read_with("hidden_size", 0), ErrorCode::kInvalidFile, "hidden_size is 0");
  expect_refused(read_with("hidden_size", "wide"), ErrorCode::kInvalidFile, "hidden_size");
  expect_refused(read_with("num_attention_heads", 5), ErrorCode::kInvalidFile, "num_attention_heads is 5");
  expect_refused(read_with("num_hidden_layers", 1 << 20), ErrorCode::kInvalidFile, "num_hidden_layers is 1048576");
  expect_refused(read_with("max_position_embeddings", -1), ErrorCode::kInvalidFile, "max_position_embeddings is -1");
  expect_refused(read_with("position_embedding_type", "relative_key"), ErrorCode::kUnsupported, "relative_key");
  expect_refused(read_with("hidden_act", "mish"), ErrorCode::kUnsupported, "mish");
  Json without = bert_config();
  without.erase("vocab_size");
  expect_refused(read(without), ErrorCode::kInvalidFile, "vocab_size is missing");

  Json roberta = bert_config();
  roberta["model_type"] = "roberta";
  roberta["max_position_embeddings"] = 2;
  roberta["pad_token_id"] = 1;
  expect_refused(read(roberta), ErrorCode::kInvalidFile, "max_position_embeddings is 2");
}

TEST(EncoderConfig, RefusesWhatNomicBertMayAskForInVain) {
  Json nomic = {
      {"model_type", "nomic_bert"}, {"vocab_size", 320}, {"n_embd", 48}, {"n_layer", 2}, {"n_head", 4}, {"n_inner", 96},
      {"n_positions", 128}};
  ASSERT_TRUE(read(nomic));
  expect_refused(read_with("prenorm", true, nomic), ErrorCode::kUnsupported, "prenorm true");
  expect_refused(read_with("moe_every_n_layers", 2, nomic), ErrorCode::kUnsupported, "moe_every_n_layers 2");
  expect_refused(read_with("activation_function", "gelu", nomic), ErrorCode::kUnsupported, "activation_function gelu");
  expect_refused(read_with("rotary_emb_fraction", 0.25, nomic), ErrorCode::kInvalidFile, "rotary dimension is 3");
}

TEST(EncoderConfig, TellsClassifiersFromTheirArchitecture) {
  Json config = bert_config();
  config["architectures"] = {"BertForSequenceClassification"};
  config["id2label"] = {{"0", "A"}, {"1", "B"}, {"2", "C"}};
  auto read_config = read(config);
  ASSERT_TRUE(read_config);
  EXPECT_EQ(read_config->kind, ModelKind::kClassifier);
  EXPECT_EQ(read_config->head.num_labels, 3);
}

TEST(Pooling, FollowsItsDefinitions) {
  const std::vector<float> states = {1.0f, -2.0f, 3.0f, -6.0f};  // two tokens of width 2
  EXPECT_EQ(pool(states, 2, Pooling::kMean), (std::vector<float>{2.0f, -4.0f}));
  EXPECT_EQ(pool(states, 2, Pooling::kMax), (std::vector<float>{3.0f, -2.0f}));
  EXPECT_EQ(pool(states, 2, Pooling::kFirst), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(pool(states, 2, Pooling::kLast), (std::vector<float>{3.0f, -6.0f}));
  EXPECT_FLOAT_EQ(pool(states, 2, Pooling::kMeanSqrtLen)[0], 4.0f / std::sqrt(2.0f));
  std::vector<float> values = {3.0f, 4.0f};
  normalize_l2(values);
  EXPECT_FLOAT_EQ(values[0], 0.6f);
  std::vector<float> zeros = {0.0f, 0.0f};
  normalize_l2(zeros);
  EXPECT_EQ(zeros[1], 0.0f);
}

}  // namespace
}  // namespace quern
