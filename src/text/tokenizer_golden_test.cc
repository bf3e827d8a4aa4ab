// The tokenizers' golden cases, on tokenizer.json files and on GGUF vocabularies of the same models.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/status.h"
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

Result<std::unique_ptr<Tokenizer>> gguf_tokenizer(const std::filesystem::path& path) {
  QUERN_ASSIGN(const auto gguf, GgufFile::open(path));
  return Tokenizer::from_gguf(gguf->metadata(), "test.gguf");
}

Json decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  const auto skipped = tokenizer.decode(ids, true);
  const auto kept = tokenizer.decode(ids, false);
  if (!skipped || !kept) return Json();
  return {{"skip_special_tokens", *skipped}, {"keep_special_tokens", *kept}};
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.flush();
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
  const auto tokenizer = gguf_tokenizer(*path);
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

// WordPiece's decoder sets blanks between words and takes them away before punctuation: streams say the same.
void expect_streams_as_decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  const Json whole = decoded(tokenizer, ids);
  EXPECT_EQ(streamed(tokenizer, ids, true), whole["skip_special_tokens"].get<std::string>());
  EXPECT_EQ(streamed(tokenizer, ids, false), whole["keep_special_tokens"].get<std::string>());
}

void expect_all_streams_as_decoded(const Tokenizer& tokenizer) {
  int count = 0;
  for (const Json& test : all_cases()) {
    if (test["tokenizer"] != "minilm" || (test["kind"] != "encode" && test["kind"] != "decode")) continue;
    SCOPED_TRACE(test["id"].get<std::string>());
    expect_streams_as_decoded(tokenizer, test["ids"]);
    ++count;
  }
  EXPECT_GT(count, 90);
  std::vector<TokenId> ids;
  uint32_t state = 7;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(static_cast<TokenId>((state >> 8) % static_cast<uint32_t>(tokenizer.vocab_size())));
    if (ids.size() == 30) expect_streams_as_decoded(tokenizer, std::exchange(ids, {}));
  }
}

TEST(WordPieceStreams, AreWhatDecodingGives) {
  const auto tokenizer = Tokenizer::from_file(golden("tokenizers/files/minilm.tokenizer.json"), Json());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_all_streams_as_decoded(**tokenizer);
  const auto id = [&](const char* piece) { return *(*tokenizer)->token_id(piece); };
  StreamDecoder decoder(**tokenizer, true);
  EXPECT_EQ(decoder.push(id("[CLS]")), "");
  EXPECT_EQ(decoder.push(id("##ing")), "##ing");
  EXPECT_EQ(decoder.push(id("mill")), " mill");
  EXPECT_EQ(decoder.push(id("##s")), "s");
  EXPECT_EQ(decoder.push(id(",")), ",");
  EXPECT_EQ(decoder.push(id("[SEP]")), "");
  EXPECT_EQ(decoder.push(id("!")), "!");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(WordPieceStreams, AreWhatDecodingGivesFromGguf) {
  const std::string file =
      std::filesystem::path(sources()["minilm"]["gguf_twin"]["path"].get<std::string>()).filename();
  const auto path = extra_file(file);
  if (!path) GTEST_SKIP() << "no " << file << " in the folder QUERN_TEST_TOKENIZERS";
  const auto tokenizer = gguf_tokenizer(*path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_all_streams_as_decoded(**tokenizer);
}

// With the clean-up and without it, and with another prefix; its rules for words that English joins as well.
TEST(WordPieceStreams, FollowTheDecodersOwnSettings) {
  Json file = Json::parse(testing::read_text(golden("tokenizers/files/minilm.tokenizer.json")));
  Json& vocab = file["model"]["vocab"];
  const std::string words[] = {"n't", "'m", "'s", "'ve", "'re", "do not", "a .", "' ", "@@x", "##", ". .", " ' "};
  const auto first = static_cast<TokenId>(vocab.size());
  for (const std::string& word : words) vocab[word] = vocab.size();
  for (const bool cleanup : {true, false}) {
    for (const char* prefix : {"##", "@@"}) {
      file["decoder"]["cleanup"] = cleanup;
      file["decoder"]["prefix"] = prefix;
      const auto path = std::filesystem::path(::testing::TempDir()) / "word_piece.tokenizer.json";
      std::ofstream(path) << dump_json(file);
      const auto tokenizer = Tokenizer::from_file(path, Json());
      ASSERT_TRUE(tokenizer) << tokenizer.error().message;
      for (size_t i = 0; i < std::size(words); ++i) {
        const TokenId id = first + static_cast<TokenId>(i);
        expect_streams_as_decoded(**tokenizer, {id, id, 101, id, 2000, id});
        expect_streams_as_decoded(**tokenizer, {101, id, 2000, id});
      }
    }
  }
}

// Further GGUF vocabularies come with texts and the ids Hugging Face gives them.
class GgufVocabularyPairs : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufVocabularyPairs, SameIds) {
  const std::string file = std::string("ggml-vocab-") + GetParam() + ".gguf";
  const auto path = extra_file(file);
  const auto texts_path = extra_file(file + ".inp");
  const auto ids_path = extra_file(file + ".out");
  if (!path || !texts_path || !ids_path) GTEST_SKIP() << "no " << file << " in the folder QUERN_TEST_TOKENIZERS";
  const auto tokenizer = gguf_tokenizer(*path);
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
