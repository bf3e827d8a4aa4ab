// The short way from text to ids against the library's own: the same ids for any text, by every pre-tokenizer there is.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/status.h"
#include "text/golden_files.h"
#include "text/pre_tokenizers.h"
#include "text/rust_tokenizer.h"

namespace quern {
namespace {

using testing::extra_file;
using testing::golden;

enum class Way : uint8_t { kUsual = 0, kLibrary = 1 };

TokenizerHandle tokenizer_of(std::string_view json, Way way) {
  QuernTokenizer* handle = nullptr;
  rust::Buffer error;
  const auto by_library = static_cast<uint8_t>(way);
  EXPECT_EQ(quern_tokenizer_from_json(rust::bytes(json), by_library, &handle, error.out()), QUERN_FFI_OK)
      << error.text();
  return TokenizerHandle(handle);
}

struct Marks {
  bool parse_special = false;
  std::vector<QuernRange> literal;
};

// The error's text when it fails.
std::pair<std::vector<uint32_t>, std::string> encoded(const QuernTokenizer& tokenizer, std::string_view text,
                                                      const Marks& marks) {
  const QuernEncodeOptions options = {.add_special = 1,
                                      .parse_special = marks.parse_special,
                                      .has_pair = 0,
                                      .want_type_ids = 0,
                                      .double_start = 0,
                                      .max_length = -1,
                                      .literal = marks.literal.data(),
                                      .num_literal = marks.literal.size()};
  rust::Ids ids;
  rust::Buffer error;
  if (quern_tokenizer_encode(&tokenizer, rust::bytes(text), {}, &options, ids.out(), error.out()) != QUERN_FFI_OK) {
    return {{}, error.text()};
  }
  return {{ids.ids().begin(), ids.ids().end()}, ""};
}

std::vector<uint32_t> spans(const QuernTokenizer& tokenizer, std::string_view text) {
  rust::Ids bounds;
  rust::Buffer error;
  EXPECT_EQ(quern_tokenizer_special_spans(&tokenizer, rust::bytes(text), bounds.out(), error.out()), QUERN_FFI_OK);
  return {bounds.ids().begin(), bounds.ids().end()};
}

struct Range {
  char32_t first, last;
};

constexpr Range kRanges[] = {
    {0x20, 0x7e},       {0x20, 0x7e},       {0x61, 0x7a},       {0x41, 0x5a},       {0x0, 0x1f},
    {0x7f, 0xff},       {0x100, 0x24f},     {0x250, 0x2ff},     {0x300, 0x36f},     {0x370, 0x3ff},
    {0x400, 0x52f},     {0x590, 0x5ff},     {0x600, 0x6ff},     {0x900, 0x97f},     {0xe00, 0xeff},
    {0x1000, 0x10ff},   {0x1100, 0x11ff},   {0x13a0, 0x13ff},   {0x1780, 0x17ff},   {0x1c80, 0x1cbf},
    {0x1d00, 0x1dff},   {0x1e00, 0x1fff},   {0x2000, 0x206f},   {0x2070, 0x209f},   {0x20d0, 0x20ff},
    {0x2100, 0x218f},   {0x2190, 0x2bff},   {0x2c00, 0x2e7f},   {0x3000, 0x303f},   {0x3040, 0x30ff},
    {0x3105, 0x318e},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xabff},   {0xac00, 0xd7af},
    {0xe000, 0xf8ff},   {0xf900, 0xfaff},   {0xfb00, 0xfdff},   {0xfe00, 0xfe6f},   {0xfeff, 0xffef},
    {0xfffd, 0xfffd},   {0x10000, 0x104ff}, {0x10a00, 0x11fff}, {0x1d400, 0x1d7ff}, {0x1e900, 0x1e95f},
    {0x1f1e6, 0x1f1ff}, {0x1f300, 0x1faff}, {0x20000, 0x2a6df}, {0xe0020, 0xe007f}, {0x80, 0xd7ff},
    {0xe000, 0x10ffff}};

constexpr Range kDigits[] = {{'0', '9'},       {'0', '9'},         {0x660, 0x669},     {0x966, 0x96f},
                             {0xff10, 0xff19}, {0xb2, 0xb3},       {0xbc, 0xbe},       {0x2070, 0x2079},
                             {0x2160, 0x217f}, {0x1d7ce, 0x1d7ff}, {0x10107, 0x10133}, {0x3021, 0x3029},
                             {0x2460, 0x249b}};

constexpr std::string_view kPieces[] = {"'s",
                                        "'S",
                                        "'t",
                                        "'RE",
                                        "'ve",
                                        "'LL",
                                        "'ll",
                                        "'m",
                                        "'D",
                                        "'\u017f",
                                        "\u2019s",
                                        "''",
                                        "n't",
                                        "I'm",
                                        "WE'VE",
                                        "don't",
                                        " the",
                                        "The",
                                        " and",
                                        "Hello",
                                        "world",
                                        "camelCase",
                                        "HTTPServer",
                                        "snake_case",
                                        "\u01c5",
                                        " na\u00efve",
                                        "e\u0301",
                                        "for (int i = 0; i < n; ++i) {\n",
                                        "\treturn x->y;\r\n",
                                        "/* no */",
                                        "https://a.b/c?d=e&f=%20",
                                        "```\n",
                                        "--",
                                        "...",
                                        "!?",
                                        "\u2026",
                                        "\u3002",
                                        "\uff0c",
                                        "\u4f60\u597d",
                                        "\u3053\u3093",
                                        "\ud55c\uad6d\uc5b4",
                                        "\u0e44\u0e17\u0e22",
                                        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
                                        "\u2764\ufe0f",
                                        "\U0001f1e9\U0001f1ea",
                                        "\U0001f44d\U0001f3fd",
                                        "\u200b",
                                        "\u200d",
                                        "\u2581",
                                        "\u2581\u2581a",
                                        "<|im_start|>",
                                        "<|im_end|>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<s>",
                                        " </s> ",
                                        "[CLS]",
                                        "[MASK]",
                                        "<unk>",
                                        "<think>",
                                        "<tool_call>",
                                        "<0x0A>",
                                        "<sentinel:12>",
                                        "IMGIMGABZ"};

constexpr std::string_view kSpaces[] = {" ",      " ",      " ",      "  ",     "\n",     "\n",
                                        "\r\n",   "\r",     "\t",     "\u00a0", "\u2003", "\u3000",
                                        "\u0085", "\u2028", "\u205f", "\u1680", "\v",     "\f"};

void append(std::string& text, char32_t c) {
  if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

class Texts {
 public:
  explicit Texts(uint32_t seed) : random_(seed) {}

  std::string next() {
    std::string text;
    for (size_t i = below(30) + 1; i > 0; --i) add_chunk(text);
    return text;
  }
  size_t below(size_t limit) { return random_() % limit; }

 private:
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }
  void add_one(std::string& text, const Range& range) {
    append(text, range.first + static_cast<char32_t>(below(range.last - range.first + 1)));
  }
  void add_chunk(std::string& text) {
    const size_t kind = below(10);
    const size_t count = below(6) == 0 ? below(70) : below(6) + 1;
    if (kind < 4) {
      text += one_of(kPieces);
    } else if (kind < 6) {
      for (size_t i = 0; i < count; ++i) text += one_of(kSpaces);
    } else if (kind == 6) {
      for (size_t i = 0; i < count; ++i) add_one(text, one_of(kDigits));
    } else if (kind == 7) {
      const Range& range = one_of(kRanges);
      for (size_t i = 0; i < count; ++i) add_one(text, range);
    } else if (kind == 8) {
      for (size_t i = 0; i < count; ++i) add_one(text, one_of(kRanges));
    } else {
      text.append(count, static_cast<char>('!' + below(94)));
    }
  }

  std::mt19937 random_;
};

void expect_same(std::string_view json, uint32_t seed, int num_texts) {
  const TokenizerHandle usual = tokenizer_of(json, Way::kUsual);
  const TokenizerHandle library = tokenizer_of(json, Way::kLibrary);
  ASSERT_TRUE(usual && library);
  Texts texts(seed);
  size_t num_ids = 0;
  for (int i = 0; i < num_texts && !::testing::Test::HasFailure(); ++i) {
    const std::string text = texts.next();
    SCOPED_TRACE(fmt::format("seed {}, text {}: {}", seed, i, dump_json(Json(text))));
    // Literal ranges begin and end at characters.
    const auto at_character = [&](size_t at) {
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
      return at;
    };
    const size_t first = at_character(texts.below(text.size() + 1));
    const size_t second = at_character(texts.below(text.size() + 1));
    const QuernRange literal = {std::min(first, second), std::max(first, second)};
    for (const Marks& marks : {Marks{}, Marks{true, {}}, Marks{true, {literal}}}) {
      const auto expected = encoded(*library, text, marks);
      EXPECT_EQ(encoded(*usual, text, marks), expected);
      num_ids += expected.first.size();
    }
    EXPECT_EQ(spans(*usual, text), spans(*library, text));
  }
  EXPECT_GT(num_ids, static_cast<size_t>(num_texts));
}

class SameIds : public ::testing::TestWithParam<const char*> {};

TEST_P(SameIds, AsTheLibrary) {
  const std::string name = std::string(GetParam()) + ".tokenizer.json";
  std::optional<std::filesystem::path> path = golden("tokenizers/files/" + name);
  if (!std::filesystem::exists(*path)) path = extra_file(name);
  if (!path) GTEST_SKIP() << "no " << name << " in the folder QUERN_TEST_TOKENIZERS";
  expect_same(testing::read_text(*path), 11, 150);
}

INSTANTIATE_TEST_SUITE_P(All, SameIds,
                         ::testing::Values("smollm2", "qwen3", "minilm", "tiny_spm_bpe", "tiny_unigram", "deepseek_v3",
                                           "gemma3", "gpt4o", "gptoss", "llama3", "mistral_7b_v1", "whisper"),
                         [](const auto& info) { return std::string(info.param); });

// SmolLM2's vocabulary, its first merges alone: files of other families would take longer to read than to compare.
Json small_file() {
  constexpr int kTokens = 1500;
  Json file = Json::parse(testing::read_text(golden("tokenizers/files/smollm2.tokenizer.json")));
  Json vocab = Json::object();
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    if (id < kTokens) vocab[token] = id;
  }
  Json merges = Json::array();
  for (const Json& merge : file["model"]["merges"]) {
    const std::string left = merge.is_array() ? merge[0].get<std::string>() : merge.get<std::string>();
    const std::string whole = merge.is_array() ? left + merge[1].get<std::string>()
                                               : left.substr(0, left.find(' ')) + left.substr(left.find(' ') + 1);
    if (vocab.contains(whole)) merges.push_back(merge);
  }
  file["model"]["vocab"] = std::move(vocab);
  file["model"]["merges"] = std::move(merges);
  return file;
}

TEST(DirectTokenizer, SameIdsByEveryNamedPreTokenizer) {
  Json file = small_file();
  uint32_t seed = 100;
  for (const char* name :
       {"default",      "gpt-2",          "starcoder",   "falcon",   "llama-bpe",  "minicpm5",   "jais-2",
        "qwen2",        "ufakzeka",       "laguna",      "qwen35",   "bailingmoe", "seed-coder", "exaone-moe",
        "deepseek-llm", "deepseek-coder", "deepseek-v3", "spark2_5", "youtu",      "afmoe",      "tekken",
        "gpt-4o",       "tiny_aya",       "kimi-k2",     "superbpe", "bloom",      "viking",     "chameleon"}) {
    SCOPED_TRACE(name);
    const auto pre = pre_tokenizer_named(name);
    ASSERT_TRUE(pre);
    file["normalizer"] = pre->normalizer;
    file["pre_tokenizer"] = pre->steps;
    file["model"]["ignore_merges"] = pre->ignore_merges;
    expect_same(dump_json(file), ++seed, 50);
  }
}

// Added tokens that take the spaces around them, stand alone or match behind the normalizer; unknown characters.
TEST(DirectTokenizer, SameIdsByOtherSettings) {
  Json file = Json::parse(testing::read_text(golden("tokenizers/files/tiny_spm_bpe.tokenizer.json")));
  const Json added = file["added_tokens"];
  uint32_t seed = 200;
  for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 11u, 15u}) {
    SCOPED_TRACE(flags);
    file["added_tokens"] = added;
    for (const char* text : {"the", " and", "</s> "}) {
      file["added_tokens"].push_back({{"id", 1100 + file["added_tokens"].size()},
                                      {"content", text},
                                      {"single_word", (flags & 1) != 0},
                                      {"lstrip", (flags & 2) != 0},
                                      {"rstrip", (flags & 4) != 0},
                                      {"normalized", (flags & 8) != 0},
                                      {"special", true}});
    }
    file["model"]["byte_fallback"] = (flags & 1) != 0;
    file["model"]["fuse_unk"] = (flags & 2) != 0;
    file["normalizer"] = (flags & 4) != 0 ? Json{{"type", "NFC"}} : Json();
    file["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", "\u2581"},
                             {"prepend_scheme", (flags & 1) != 0 ? "first" : "always"},
                             {"split", (flags & 2) != 0}};
    expect_same(dump_json(file), ++seed, 50);
  }
}

// Files that no tokenizer we know of has, where the two ways once differed.
TEST(DirectTokenizer, SameIdsByStrangeFiles) {
  struct Strange {
    const char *model, *normalizer, *steps, *text;
  };
  const Strange files[] = {
      {R"({"type":"BPE","vocab":{"▁":0,"a":1,"x":2,"▁x":3,"a▁x":4},"merges":[["▁","x"],["a","▁x"]]})", "null", "null",
       "az▁x"},
      {R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":3,"bc":4,"z":5,"za":6},
           "merges":[["b","c"],["a","b"],["z","a"],["a","bc"]]})",
       "null", "null", "zabc"},
      {R"({"type":"BPE","unk_token":"<unk>","vocab":{"▁":0,"b":1,"x":2,"<unk>":3,"▁x":4,"b<unk>":5,"b<unk>▁x":6},
           "merges":[["▁","x"],["b","<unk>"],["b<unk>","▁x"]]})",
       "null", "null", "bz▁x"},
      {R"({"type":"BPE","vocab":{"a":0,"b":1," ":2},"merges":[]})", "null",
       R"j({"type":"Split","pattern":{"Regex":"(?x: [a b]+ )"},"behavior":"Isolated","invert":false})j", "a b"},
      {R"({"type":"BPE","vocab":{"a":0,"b":1," ":2,"▁":3," a":4},"merges":[[" ","a"]]})",
       R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})",
       R"({"type":"Sequence","pretokenizers":[
           {"type":"Metaspace","replacement":" ","prepend_scheme":"always","split":false},
           {"type":"Split","pattern":{"String":" "},"behavior":"Isolated","invert":false}]})",
       "ab"},
  };
  for (const Strange& one : files) {
    SCOPED_TRACE(one.model);
    const Json file = {{"version", "1.0"},
                       {"added_tokens", Json::array()},
                       {"model", Json::parse(one.model)},
                       {"normalizer", Json::parse(one.normalizer)},
                       {"pre_tokenizer", Json::parse(one.steps)}};
    const TokenizerHandle usual = tokenizer_of(dump_json(file), Way::kUsual);
    const TokenizerHandle library = tokenizer_of(dump_json(file), Way::kLibrary);
    EXPECT_EQ(encoded(*usual, one.text, {}), encoded(*library, one.text, {}));
  }
}

TEST(DirectTokenizer, ManyStepsEndNoStack) {
  Json file = small_file();
  Json steps = Json::array();
  for (int i = 0; i < 30'000; ++i) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  const TokenizerHandle usual = tokenizer_of(dump_json(file), Way::kUsual);
  EXPECT_FALSE(encoded(*usual, "a1", {}).first.empty());
}

// Anything quadratic would take hours here.
TEST(DirectTokenizer, LongRunsTakeNoMoreThanOtherText) {
  for (const char* name : {"smollm2", "qwen3", "tiny_spm_bpe"}) {
    const auto tokenizer =
        Tokenizer::from_file(golden(std::string("tokenizers/files/") + name + ".tokenizer.json"), Json());
    ASSERT_TRUE(tokenizer);
    for (const char* unit :
         {"a", " ", "\n", " \n", "A", "1", "!", "'", "\u0301", "\u2581", "\u4f60", "<|im_end|", "ab "}) {
      SCOPED_TRACE(fmt::format("{} {}", name, dump_json(Json(unit))));
      std::string text;
      while (text.size() < 100'000) text += unit;
      const auto encoding = (*tokenizer)->encode(text, {.add_special = false});
      ASSERT_TRUE(encoding);
      const auto decoded = (*tokenizer)->decode(encoding->ids, false);
      ASSERT_TRUE(decoded);
      const bool is_plain = std::string_view(name) != "tiny_spm_bpe";
      EXPECT_TRUE(!is_plain || *decoded == text);
    }
  }
}

TEST(DirectTokenizer, ServesSeveralThreadsAtOnce) {
  const auto tokenizer = Tokenizer::from_file(golden("tokenizers/files/qwen3.tokenizer.json"), Json());
  ASSERT_TRUE(tokenizer);
  const auto encode_all = [&] {
    std::vector<std::vector<TokenId>> ids;
    Texts texts(300);
    for (int i = 0; i < 300; ++i) {
      const auto encoding = (*tokenizer)->encode(texts.next(), {.parse_special = true});
      ids.push_back(encoding ? encoding->ids : std::vector<TokenId>());
    }
    return ids;
  };
  std::vector<std::vector<TokenId>> results[4];
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = encode_all(); });
  }
  const auto expected = encode_all();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace quern
