#include "platform/catalog/registrations.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOurs = R"({"name": "mine", "kind": "chat", "family": "llama",
  "variants": [{"tag": "a", "format": "gguf", "sources": [{"path": "/models/mine.gguf"}]}]})";

constexpr const char* kVersion2 = R"({"version": 2, "context_length": 32768, "model_name": "demo-chat",
  "model_lang": ["en", "zh"], "model_ability": ["chat", "tools"], "model_description": "two\nlines",
  "model_family": "qwen2.5-instruct", "stop": ["<end>"],
  "model_specs": [
    {"model_format": "ggufv2", "model_size_in_billions": "1_7", "model_src": {
       "huggingface": {"model_id": "org/Demo-GGUF", "quantizations": ["Q4_K_M", "Q8_0"],
                       "model_file_name_template": "demo-{quantization}.gguf"},
       "modelscope": {"model_id": "org2/Demo-GGUF", "quantizations": ["Q8_0"],
                      "model_file_name_template": "demo-{quantization}.gguf"},
       "csghub": {"model_id": "x/y"}}},
    {"model_format": "gptq", "model_size_in_billions": 7, "model_src": {
       "huggingface": {"model_id": "org/Demo-GPTQ-{quantization}", "quantizations": ["Int4"]}}}]})";

constexpr const char* kFlat = R"({"version": 1, "context_length": 2048, "model_name": "flat", "model_lang": ["en"],
  "model_ability": ["generate"], "model_family": "other", "model_specs": [
    {"model_format": "pytorch", "model_size_in_billions": 7, "quantization": "none", "model_uri": "file:///models/flat"},
    {"model_format": "ggufv2", "model_size_in_billions": 7, "quantizations": ["q4_0"], "model_id": "org/flat",
     "model_file_name_template": "flat.{quantization}.gguf", "model_hub": "modelscope"}]})";

class RegistrationsTest : public ::testing::Test {
 protected:
  RegistrationsTest() {
    std::string name = (fs::temp_directory_path() / "quern-XXXXXX").string();
    home_ = ::mkdtemp(name.data());
    ::setenv("QUERN_HOME", home_.c_str(), 1);
  }
  ~RegistrationsTest() override {
    ::unsetenv("QUERN_HOME");
    fs::remove_all(home_);
  }
  fs::path home_;
};

std::string refusal(std::string_view text, std::string_view type = {}) {
  const auto parsed = parse_registration(text, type);
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error().message;
}

TEST_F(RegistrationsTest, OursComesAndGoes) {
  ASSERT_TRUE(register_model(kOurs));
  const auto catalog = Catalog::open();
  ASSERT_TRUE(catalog);
  const auto entry = catalog->find("MINE", "");
  ASSERT_TRUE(entry);
  EXPECT_TRUE(entry->model->custom);
  EXPECT_EQ(entry->variant->sources[0].kind, SourceKind::kPath);
  ASSERT_EQ(list_registrations().size(), 1u);
  EXPECT_EQ(list_registrations()[0].type, "LLM");
  EXPECT_EQ(unregister_model("mine", "embedding").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(unregister_model("Mine", "llm"));
  EXPECT_TRUE(list_registrations().empty());
  EXPECT_EQ(unregister_model("mine").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(Catalog::open()->find("mine", ""));
}

TEST_F(RegistrationsTest, ANameIsTakenOnce) {
  ASSERT_TRUE(register_model(kOurs));
  EXPECT_NE(register_model(kOurs).error().message.find("registered already"), std::string::npos);
  EXPECT_NE(register_model(kOurs, "", "SmolLM2").error().message.find("built-in"), std::string::npos);
  EXPECT_TRUE(register_model(kOurs, "", "other"));
  EXPECT_EQ(list_registrations().size(), 2u);
}

TEST_F(RegistrationsTest, OfManyAtOnceOneWins) {
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { won += register_model(kOurs) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(home_ / "registrations"), fs::directory_iterator()), 1);
}

TEST_F(RegistrationsTest, ABrokenFileHurtsNobody) {
  ASSERT_TRUE(register_model(kOurs));
  std::ofstream(home_ / "registrations" / "broken.json") << "{";
  std::ofstream(home_ / "registrations" / "..json") << "{}";
  const auto all = list_registrations();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "broken");
  EXPECT_FALSE(all[0].fault.empty());
  EXPECT_TRUE(Catalog::open()->find("mine", ""));
  EXPECT_TRUE(unregister_model("broken"));
}

TEST_F(RegistrationsTest, XinferencesSecondVersion) {
  const auto read = parse_registration(kVersion2);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->type, "LLM");
  const CatalogModel& model = read->model;
  EXPECT_EQ(model.kind, "chat");
  EXPECT_EQ(model.family, "qwen2");  // lent by model_family
  EXPECT_EQ(model.tool_format, "hermes");
  EXPECT_EQ(model.context, 32768);
  ASSERT_EQ(model.variants.size(), 3u);
  EXPECT_EQ(model.variants[0].tag, "1.7b-q4_k_m");
  EXPECT_EQ(model.variants[1].sources.size(), 2u);  // of both hubs
  EXPECT_EQ(model.variants[1].sources[1].kind, SourceKind::kModelScope);
  EXPECT_EQ(model.variants[1].sources[0].parts[0].path, "demo-Q8_0.gguf");
  EXPECT_EQ(model.variants[2].tag, "7b-gptq-int4");
  EXPECT_EQ(model.variants[2].sources[0].parts[0].name, "org/Demo-GPTQ-Int4");
  EXPECT_EQ(model.size_of(model.variants[0])->parameters_b, 1.7);
  EXPECT_EQ(read->document["stop"][0], "<end>");
  ASSERT_TRUE(register_model(kVersion2));
  EXPECT_EQ(list_registrations()[0].document["model_name"], "demo-chat");
}

TEST_F(RegistrationsTest, XinferencesFlatForm) {
  const auto read = parse_registration(kFlat, "llm");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->model.variants.size(), 2u);
  EXPECT_EQ(read->model.kind, "completion");
  EXPECT_EQ(read->model.variants[0].sources[0].parts[0].name, "/models/flat");
  EXPECT_EQ(read->model.variants[1].sources[0].kind, SourceKind::kModelScope);
  EXPECT_EQ(read->model.variants[1].sources[0].parts[0].path, "flat.q4_0.gguf");
}

TEST_F(RegistrationsTest, XinferencesOtherTypes) {
  const auto embedding = parse_registration(
      R"({"model_name": "e", "dimensions": 768, "max_tokens": 512, "language": ["en"], "model_id": "org/e"})");
  ASSERT_TRUE(embedding) << embedding.error().message;
  EXPECT_EQ(embedding->type, "embedding");
  EXPECT_EQ(embedding->model.dimensions, 768);
  const auto rerank =
      parse_registration(R"({"model_name": "r", "language": ["en"], "max_tokens": 512, "model_uri": "file:///r"})");
  ASSERT_TRUE(rerank) << rerank.error().message;
  EXPECT_EQ(rerank->type, "rerank");
  const auto image = parse_registration(
      R"({"model_name": "i", "model_family": "stable_diffusion", "model_id": "org/i", "controlnet": []})");
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->type, "image");
  const auto audio =
      parse_registration(R"({"model_name": "a", "model_family": "whisper", "multilingual": true, "model_uri": "/a"})");
  ASSERT_TRUE(audio) << audio.error().message;
  EXPECT_EQ(audio->type, "audio");
  EXPECT_EQ(audio->model.kind, "transcription");
}

TEST_F(RegistrationsTest, HostileOnesAreRefusedByField) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text = kVersion2;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(text.replace(at, from.size(), to));
  };
  EXPECT_NE(with("\"demo-chat\"", "\"../../etc\"").find("model_name"), std::string::npos);
  EXPECT_NE(with("\"demo-chat\"", "7").find("model_name"), std::string::npos);
  EXPECT_NE(with("\"1_7\"", "\"many\"").find("model_size_in_billions"), std::string::npos);
  EXPECT_NE(with("\"org/Demo-GGUF\"", "\"org/../x\"").find("model_id"), std::string::npos);
  EXPECT_NE(with("\"demo-{quantization}.gguf\"", "\"../../{quantization}\"").find("file"), std::string::npos);
  EXPECT_NE(with("[\"Q4_K_M\", \"Q8_0\"]", "[\"../x\"]").find("variants"), std::string::npos);
  EXPECT_NE(with("32768", "1e99").find("context_length"), std::string::npos);
  EXPECT_NE(with("\"ggufv2\"", "\"pickle\"").find("model_format"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_name": "x"})").find("model_type"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_name": "x", "model_lang": ["en"]})").find("model_specs"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_name": "x", "dimensions": 8, "model_uri": "s3://a/b"})").find("model_uri"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"model_name": "x", "dimensions": 8, "model_uri": "http://a.example/b.gguf"})").find("model_uri"),
      std::string::npos);
  EXPECT_NE(refusal(kOurs, "image").find("kind"), std::string::npos);
  EXPECT_NE(refusal(kOurs, "video").find("type"), std::string::npos);
  EXPECT_NE(refusal(std::string(kRegistrationBytesMax + 1, ' ')).find("at most"), std::string::npos);
  EXPECT_NE(refusal(std::string(100, '[') + std::string(100, ']')).find("the document"), std::string::npos);
}

}  // namespace
}  // namespace quern
