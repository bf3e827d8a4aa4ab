// The tokenizers' golden cases, on tokenizer.json files and on GGUF vocabularies of the same models.
#include <gtest/gtest.h>

#include "formats/gguf/gguf_file.h"
#include "text/golden_files.h"
#include "text/tokenizer.h"

namespace quern {
namespace {

using testing::extra_file;
using testing::golden;

const std::vector<Json>& all_cases() {
  static const std::vector<Json> cases = testing::read_json_lines(golden("tokenizers/cases.jsonl"));
  return cases;
}

const Json& sources() {
  static const Json sources = Json::parse(testing::read_text(golden("tokenizers/sources.json")));
  return sources;
}

Json decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  const auto skipped = tokenizer.decode(ids, true);
  const auto kept = tokenizer.decode(ids, false);
  if (!skipped || !kept) return Json();
  return {{"skip_special_tokens", *skipped}, {"keep_special_tokens", *kept}};
}

void check_encode(const Tokenizer& tokenizer, const Json& test) {
  const EncodeOptions options = {
      .add_special = test["add_special_tokens"], .parse_special = test["parse_special"], .double_bos = true};
  const auto encoding = tokenizer.encode(test["text"].get<std::string>(), options);
  ASSERT_TRUE(encoding) << encoding.error().message;
  const Json ids = encoding->ids;
  if (test.contains("ids_alt") && ids == test["ids_alt"]) return;
  EXPECT_EQ(ids, test["ids"]);
  EXPECT_EQ(decoded(tokenizer, test["ids"]), test["decoded"]);
}

void check_stream(const Tokenizer& tokenizer, const Json& test) {
  StreamDecoder decoder(tokenizer, test["skip_special_tokens"]);
  Json deltas = Json::array();
  for (const TokenId id : test["ids"]) deltas.push_back(decoder.push(id));
  EXPECT_EQ(deltas, test["deltas"]);
  EXPECT_EQ(decoder.flush(), test["flush"]);
}

void check_pair(const Tokenizer& tokenizer, const Json& test) {
  EncodeOptions options = {.add_special = test["add_special_tokens"], .parse_special = true};
  if (test.contains("max_length")) options.max_length = test["max_length"].get<int32_t>();
  const std::string text = test["text"];
  const bool single = !test.contains("text_pair");
  const auto encoding = single
                            ? tokenizer.encode(text, options)
                            : tokenizer.encode_pair(text, test["text_pair"].get<std::string>(), options, std::nullopt);
  ASSERT_TRUE(encoding) << encoding.error().message;
  EXPECT_EQ(Json(encoding->ids), test["ids"]);
  EXPECT_EQ(Json(encoding->type_ids), test["type_ids"]);
}

void check_case(const Tokenizer& tokenizer, const Json& test) {
  SCOPED_TRACE(test["id"].get<std::string>());
  const std::string kind = test["kind"];
  if (kind == "encode") {
    check_encode(tokenizer, test);
  } else if (kind == "decode") {
    EXPECT_EQ(decoded(tokenizer, test["ids"]), test["decoded"]);
  } else if (kind == "stream") {
    check_stream(tokenizer, test);
  } else {
    check_pair(tokenizer, test);
  }
}

class TokenizerGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, TokenizerJson) {
  const Json& source = sources()[GetParam()];
  std::optional<std::filesystem::path> path;
  if (source["stored"].is_string()) path = golden("tokenizers/" + source["stored"].get<std::string>());
  if (!path) path = extra_file(GetParam() + ".tokenizer.json");
  if (!path) GTEST_SKIP() << "no " << GetParam() << ".tokenizer.json in the folder QUERN_TEST_TOKENIZERS";
  const auto tokenizer = Tokenizer::from_file(*path, Json());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  int count = 0;
  for (const Json& test : all_cases()) {
    if (test["tokenizer"] != GetParam()) continue;
    check_case(**tokenizer, test);
    ++count;
  }
  EXPECT_GT(count, 0);
}

// Whether a case uses ids or special tokens that the GGUF twin does not have.
bool beyond_twin(const Json& test, const Tokenizer& twin, const std::string& name) {
  if (name != "qwen3") return false;
  for (const TokenId id : test["ids"]) {
    if (id > 151645 || id >= twin.vocab_size()) return true;
  }
  return false;
}

TEST_P(TokenizerGolden, Gguf) {
  const Json& source = sources()[GetParam()];
  std::string file;
  if (source.value("format", "") == "gguf") file = source["path"];
  if (source.contains("gguf_twin")) file = source["gguf_twin"]["path"];
  if (file.empty()) GTEST_SKIP() << GetParam() << " has no GGUF vocabulary";
  file = std::filesystem::path(file).filename();
  const auto path = extra_file(file);
  if (!path) GTEST_SKIP() << "no " << file << " in the folder QUERN_TEST_TOKENIZERS";
  const auto gguf = GgufFile::open(*path);
  ASSERT_TRUE(gguf) << gguf.error().message;
  const auto tokenizer = Tokenizer::from_gguf((*gguf)->metadata(), "test.gguf");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  int count = 0;
  for (const Json& test : all_cases()) {
    if (test["tokenizer"] != GetParam() || beyond_twin(test, **tokenizer, GetParam())) continue;
    check_case(**tokenizer, test);
    ++count;
  }
  EXPECT_GT(count, 50);
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& [name, source] : sources().items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

// Further GGUF vocabularies come with texts and the ids Hugging Face gives them.
class GgufVocabularyPairs : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufVocabularyPairs, SameIds) {
  const std::string file = std::string("ggml-vocab-") + GetParam() + ".gguf";
  const auto path = extra_file(file);
  const auto texts_path = extra_file(file + ".inp");
  const auto ids_path = extra_file(file + ".out");
  if (!path || !texts_path || !ids_path) GTEST_SKIP() << "no " << file << " in the folder QUERN_TEST_TOKENIZERS";
  const auto gguf = GgufFile::open(*path);
  ASSERT_TRUE(gguf) << gguf.error().message;
  const auto tokenizer = Tokenizer::from_gguf((*gguf)->metadata(), "test.gguf");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;

  const std::string texts = testing::read_text(*texts_path);
  std::istringstream lines(testing::read_text(*ids_path));
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  size_t begin = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = std::min(texts.find(kSeparator, begin), texts.size());
    const std::string text = texts.substr(begin, end - begin);
    begin = std::min(end + kSeparator.size(), texts.size());
    std::vector<TokenId> expected;
    std::istringstream numbers(line);
    for (TokenId id = 0; numbers >> id;) expected.push_back(id);
    const auto encoding = (*tokenizer)->encode(text, {.add_special = false, .parse_special = true});
    ASSERT_TRUE(encoding) << encoding.error().message;
    EXPECT_EQ(encoding->ids, expected) << "text: " << text;
  }
  EXPECT_EQ(begin, texts.size());
}

INSTANTIATE_TEST_SUITE_P(All, GgufVocabularyPairs,
                         ::testing::Values("bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon",
                                           "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2",
                                           "qwen35", "refact", "starcoder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quern
