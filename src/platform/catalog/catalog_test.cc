#include "platform/catalog/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/memory_estimate.h"
#include "platform/catalog/estimate.h"

namespace quern {
namespace {

constexpr const char* kOne = R"({"models": [{
  "name": "Tiny", "aliases": ["tiny-chat"], "kind": "chat", "family": "llama", "license": "MIT", "description": "A model",
  "context": 2048, "languages": ["en"], "abilities": ["chat", "tools"], "tool_format": "hermes",
  "sizes": {"1b": {"parameters_b": 1.1, "layers": 4, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16},
            "30b": {"parameters_b": 30, "active_b": 3, "family": "mixtral", "license": "Other"}},
  "variants": [
    {"size": "1b", "format": "gguf", "quantizations": ["Q4_K_M", "Q8_0"],
     "sources": [{"hf": "org/Tiny-GGUF", "file": "tiny-{quantization}.gguf"}]},
    {"size": "1b", "format": "safetensors", "sources": [{"hf": "org/Tiny", "revision": "main"}, {"modelscope": "o/T"}]},
    {"size": "1b", "format": "safetensors", "scheme": "gptq", "quantizations": ["Int4"],
     "sources": [{"hf": "org/Tiny-GPTQ-{quantization}"}]},
    {"size": "30b", "format": "mlx", "quantizations": ["4bit"], "sources": [{"hf": "org/Tiny-30B-4bit"}]}]}]})";

std::string refusal(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto catalog = Catalog::parse(text);
  EXPECT_FALSE(catalog) << to;
  if (catalog) return "";
  EXPECT_EQ(catalog.error().code, ErrorCode::kInvalidFile);
  return catalog.error().message;
}

std::vector<std::string> names(const std::vector<const CatalogModel*>& models) {
  std::vector<std::string> names;
  for (const CatalogModel* model : models) names.push_back(model->name);
  return names;
}

TEST(Catalog, VariantsAreSpelledOut) {
  const auto catalog = Catalog::parse(kOne);
  ASSERT_TRUE(catalog) << catalog.error().message;
  const CatalogModel& model = *catalog->models().front();
  std::vector<std::string> tags;
  for (const CatalogVariant& variant : model.variants) tags.push_back(variant.tag);
  EXPECT_EQ(tags, (std::vector<std::string>{"1b-q4_k_m", "1b-q8_0", "1b", "1b-gptq-int4", "30b-mlx-4bit"}));
  EXPECT_EQ(model.variants[1].sources[0].parts[0].path, "tiny-Q8_0.gguf");
  EXPECT_EQ(model.variants[3].sources[0].parts[0].name, "org/Tiny-GPTQ-Int4");
  EXPECT_EQ(model.variants[3].quantization, "gptq-int4");
  EXPECT_EQ(model.variants[2].sources[1].kind, SourceKind::kModelScope);
  EXPECT_EQ(model.family_of(model.variants[0]), "llama");
  EXPECT_EQ(model.family_of(model.variants[4]), "mixtral");
  EXPECT_EQ(model.license_of(model.variants[4]), "Other");
  EXPECT_EQ(model.size_of(model.variants[4])->active_b, 3);
}

TEST(Catalog, FindTakesNamesAliasesTagsAndSizesInAnyCase) {
  const auto catalog = Catalog::parse(kOne);
  ASSERT_TRUE(catalog);
  EXPECT_EQ(catalog->find("tiny", "")->variant->tag, "1b-q4_k_m");
  EXPECT_EQ(catalog->find("TINY-CHAT", "1B-Q8_0")->variant->tag, "1b-q8_0");
  EXPECT_EQ(catalog->find("tiny", "1b")->variant->format, "safetensors");
  EXPECT_EQ(catalog->find("tiny", "30B")->variant->tag, "30b-mlx-4bit");
  EXPECT_EQ(catalog->find("tiny", "2b").error().code, ErrorCode::kNotFound);
  EXPECT_NE(catalog->find("tiny", "2b").error().message.find("1b-q8_0"), std::string::npos);
  EXPECT_EQ(catalog->find("big", "").error().code, ErrorCode::kNotFound);
}

TEST(Catalog, ABadFieldIsRefusedByItsName) {
  const auto refused = [](std::string_view from, std::string_view to) { return refusal(kOne, from, to); };
  EXPECT_NE(refused(R"("kind": "chat")", R"("kind": "video")").find("models[0].kind"), std::string::npos);
  EXPECT_NE(refused(R"("name": "Tiny")", R"("name": "../x")").find("models[0].name"), std::string::npos);
  EXPECT_NE(refused(R"("context": 2048)", R"("context": -1)").find("models[0].context"), std::string::npos);
  EXPECT_NE(refused(R"("context": 2048)", R"("contexts": 1)").find("models[0].contexts: is unknown"),
            std::string::npos);
  EXPECT_NE(refused(R"("hf": "org/Tiny-GGUF")", R"("hf": "org")").find("variants[0].sources[0].hf"), std::string::npos);
  EXPECT_NE(refused(R"("file": "tiny-{quantization}.gguf")", R"("file": "../{quantization}")").find("sources[0].file"),
            std::string::npos);
  EXPECT_NE(refused(R"("hf": "org/Tiny-GGUF")", R"("path": "/etc/passwd")").find("custom model"), std::string::npos);
  EXPECT_NE(refused(R"("layers": 4)", R"("layers": 100000)").find("sizes.1b.layers"), std::string::npos);
  EXPECT_NE(refused(R"(["Q4_K_M", "Q8_0"])", R"(["Q8_0", "q8_0"])").find("two are called 1b-q8_0"), std::string::npos);
  EXPECT_NE(refused(R"("size": "30b")", R"("size": "31b")").find("sizes has no 31b"), std::string::npos);
  EXPECT_FALSE(Catalog::parse("[]"));
  EXPECT_FALSE(Catalog::parse(R"({"models": [1]})"));
}

TEST(Catalog, TheBuiltInOneIsSound) {
  const auto catalog = Catalog::built_in();
  ASSERT_TRUE(catalog) << catalog.error().message;
  EXPECT_GE(catalog->models().size(), 150u);
  for (const char* name : {"smollm2", "qwen2.5-coder", "gemma3", "all-MiniLM-L6-v2", "bge-reranker-base"}) {
    EXPECT_NE(catalog->find_model(name), nullptr) << name;
  }
  std::set<std::string> types;
  for (const CatalogModel* model : catalog->models()) types.emplace(model_type_of(model->kind));
  EXPECT_EQ(types, (std::set<std::string>{"LLM", "audio", "embedding", "image", "rerank"}));
  // What earlier versions pulled keeps its name, source and hash.
  EXPECT_EQ(catalog->find("smollm2", "")->variant->sha256,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  EXPECT_EQ(catalog->find("qwen2.5", "0.5b-q4_k_m")->variant->sources[0].parts[0].path,
            "qwen2.5-0.5b-instruct-q4_k_m.gguf");
  EXPECT_EQ(catalog->find("qwen2.5", "")->variant->tag, "0.5b-q4_k_m");
}

// Families that are the engine's own must be called so, or `quern engines` says no to a model that runs.
TEST(Catalog, FamiliesOfTheEngineAreKnownToIt) {
  const auto catalog = Catalog::built_in();
  ASSERT_TRUE(catalog);
  size_t count = 0;
  for (const CatalogModel* model : catalog->models()) {
    for (const CatalogVariant& variant : model->variants) {
      if (runs_family(model->family_of(variant))) count += &variant == &model->variants.front() ? 1 : 0;
    }
  }
  EXPECT_GE(count, 100u);
  for (const char* name : {"qwen3", "llama-3.1-instruct", "gpt-oss", "gemma-3-it", "bge-m3", "olmo2", "deepseek-r1"}) {
    const CatalogModel* model = catalog->find_model(name);
    ASSERT_NE(model, nullptr) << name;
    EXPECT_TRUE(runs_family(model->family_of(model->variants.front()))) << name << " " << model->family;
  }
}

TEST(Catalog, QuantisationsOfItAreOfKnownWidth) {
  const auto catalog = Catalog::built_in();
  ASSERT_TRUE(catalog);
  std::set<std::string> unknown;
  for (const CatalogModel* model : catalog->models()) {
    for (const CatalogVariant& variant : model->variants) {
      if (variant.format == "gguf" && bits_per_weight(variant.quantization) == 0) unknown.insert(variant.quantization);
    }
  }
  EXPECT_LE(unknown.size(), 12u) << *unknown.begin();
  EXPECT_EQ(bits_per_weight("Q8_0"), 8.5);
  EXPECT_EQ(bits_per_weight("UD-Q4_K_XL"), bits_per_weight("q4_k_m"));
  EXPECT_EQ(bits_per_weight("gptq-int4-int8mix"), bits_per_weight("gptq-int4"));
  EXPECT_EQ(bits_per_weight("nonsense"), 0);
}

TEST(Catalog, SearchTakesWordsAndFilters) {
  const auto catalog = Catalog::built_in();
  ASSERT_TRUE(catalog);
  const auto found = [&](const CatalogQuery& query) { return names(catalog->search(query)); };
  EXPECT_EQ(found({.words = {"SmolLM2"}}).front(), "smollm2");
  for (const std::string& name : found({.words = {"qwen", "coder"}})) EXPECT_NE(name.find("oder"), std::string::npos);
  for (const CatalogModel* model : catalog->search({.kind = "llm", .ability = "Tools", .format = "GGUF"})) {
    EXPECT_EQ(model_type_of(model->kind), "LLM");
    EXPECT_NE(std::ranges::find(model->abilities, "tools"), model->abilities.end());
  }
  for (const CatalogModel* model : catalog->search({.kind = "chat", .parameters_b_max = 0.2})) {
    EXPECT_TRUE(std::ranges::any_of(model->sizes, [](const auto& size) { return size.parameters_b <= 0.2; }));
  }
  EXPECT_TRUE(found({.words = {"no such model"}}).empty());
  EXPECT_EQ(found({}).size(), catalog->models().size());
}

}  // namespace
}  // namespace quern
