#include "text/pre_tokenizers.h"

#include <array>
#include <initializer_list>
#include <vector>

#include "base/status.h"

namespace quern {
namespace {

enum class Split {
  kGpt2,        // GPT-2's own pattern
  kDigitsGpt2,  // every digit alone, then GPT-2's
  kDefault,     // files that name none
  kFalcon,
  kLlama3,
  kLlama3Runs,  // digits by three first, then Llama 3's with runs of digits
  kJais2,
  kQwen2,
  kQwen2NoContractions,
  kQwen2Lines,  // line breaks apart, then Qwen 2's
  kQwen35,
  kBailing,
  kSeedCoder,
  kExaoneMoe,
  kDeepseekLlm,
  kDeepseekCoder,
  kDeepseekV3,
  kSpark,
  kYoutu,
  kAfmoe,
  kTekken,
  kO200k,
  kTinyAya,
  kKimiK2,
  kSuperBpe,
  kBloom,
  kViking,
  kChameleon,
};

enum Flags : unsigned { kPlain = 0, kIgnoreMerges = 1, kAddBos = 2, kNfc = 4 };

struct Entry {
  std::string_view name;
  Split split;
  unsigned flags = kPlain;
};

constexpr auto kEntries = std::to_array<Entry>({
    {"default", Split::kDefault},
    {"gpt-2", Split::kGpt2},
    {"phi-2", Split::kGpt2},
    {"jina-es", Split::kGpt2},
    {"jina-de", Split::kGpt2},
    {"jina-v1-en", Split::kGpt2},
    {"jina-v2-es", Split::kGpt2},
    {"jina-v2-de", Split::kGpt2},
    {"jina-v2-code", Split::kGpt2},
    {"roberta-bpe", Split::kGpt2},
    {"gigachat", Split::kGpt2},
    {"a.x-4.0", Split::kGpt2},
    {"mellum", Split::kGpt2},
    {"modern-bert", Split::kGpt2, kNfc},
    {"exaone4", Split::kGpt2},
    {"mpt", Split::kGpt2, kNfc},
    {"olmo", Split::kGpt2, kNfc},
    {"jais", Split::kGpt2},
    {"trillion", Split::kGpt2},
    {"granite-docling", Split::kGpt2},
    {"starcoder", Split::kDigitsGpt2},
    {"refact", Split::kDigitsGpt2},
    {"command-r", Split::kDigitsGpt2, kNfc},
    {"smollm", Split::kDigitsGpt2},
    {"codeshell", Split::kDigitsGpt2},
    {"exaone", Split::kDigitsGpt2},
    {"minerva-7b", Split::kDigitsGpt2},
    {"mellum2", Split::kDigitsGpt2},
    {"falcon", Split::kFalcon},
    {"llama-bpe", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"llama3", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"llama-v3", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"falcon3", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"falcon-h1", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"pixtral", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"midm-2.0", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"lfm2", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"jina-v5-nano", Split::kLlama3, kIgnoreMerges | kAddBos},
    {"dbrx", Split::kLlama3},
    {"smaug-bpe", Split::kLlama3},
    {"chatglm-bpe", Split::kLlama3},
    {"glm4", Split::kLlama3, kIgnoreMerges},
    {"glm5", Split::kLlama3, kIgnoreMerges},
    {"minicpm5", Split::kLlama3Runs, kIgnoreMerges},
    {"jais-2", Split::kJais2},
    {"qwen2", Split::kQwen2, kNfc},
    {"deepseek-r1-qwen", Split::kQwen2, kNfc},
    {"kormo", Split::kQwen2, kNfc},
    {"f2llmv2", Split::kQwen2, kNfc},
    {"megrez", Split::kQwen2, kNfc},
    {"stablelm2", Split::kQwen2},
    {"hunyuan", Split::kQwen2},
    {"solar-open", Split::kQwen2},
    {"grok-2", Split::kQwen2},
    {"ufakzeka", Split::kQwen2NoContractions},
    {"laguna", Split::kQwen2Lines},
    {"qwen35", Split::kQwen35},
    {"bailingmoe", Split::kBailing},
    {"bailingmoe2", Split::kBailing},
    {"llada-moe", Split::kBailing},
    {"seed-coder", Split::kSeedCoder},
    {"exaone-moe", Split::kExaoneMoe},
    {"deepseek-llm", Split::kDeepseekLlm},
    {"deepseek-coder", Split::kDeepseekCoder},
    {"deepseek-v3", Split::kDeepseekV3},
    {"hunyuan-dense", Split::kDeepseekV3},
    {"joyai-llm", Split::kDeepseekV3},
    {"hy_v4", Split::kDeepseekV3},
    {"spark2_5", Split::kSpark},
    {"youtu", Split::kYoutu, kIgnoreMerges},
    {"afmoe", Split::kAfmoe},
    {"tekken", Split::kTekken, kIgnoreMerges | kAddBos},
    {"gpt-4o", Split::kO200k},
    {"llama4", Split::kO200k},
    {"kanana2", Split::kO200k},
    {"talkie", Split::kO200k},
    {"minimax-m2", Split::kO200k},
    {"granite-embed-multi-97m", Split::kO200k, kIgnoreMerges},
    {"tiny_aya", Split::kTinyAya},
    {"cohere2moe", Split::kTinyAya},
    {"kimi-k2", Split::kKimiK2},
    {"superbpe", Split::kSuperBpe},
    {"bloom", Split::kBloom},
    {"gpt3-finnish", Split::kBloom},
    {"poro-chat", Split::kBloom},
    {"viking", Split::kViking},
    {"chameleon", Split::kChameleon, kAddBos},
});

// Ends that most patterns share: line breaks with the spaces before them, then spaces, the last of a run going to the
// word.
#define QUERN_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define QUERN_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define QUERN_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define QUERN_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
// Words that end where lower case is followed by upper case, in the two forms o200k and Tekken have.
#define QUERN_CASED(suffix)                                                                                           \
  R"([^\r\n\p{L}\p{N}]?)" QUERN_UPPER "*" QUERN_LOWER "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" QUERN_UPPER "+" QUERN_LOWER \
  "*" suffix
#define QUERN_ASCII_PUNCTUATION R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])"

constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    QUERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kLlama3RunsPattern =
    QUERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kJais2Pattern = QUERN_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S))"
    R"(|\s{1,2}(?!\S)|\s{1})";
constexpr const char* kQwen2Pattern =
    QUERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kQwen2NoContractionsPattern =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kQwen35Pattern =
    QUERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kBailingPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoderPattern =
    QUERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" QUERN_SPACES;
constexpr const char* kExaoneMoePattern =
    QUERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                       R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kTekkenPattern = QUERN_CASED("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QUERN_SPACES;
constexpr const char* kO200kPattern =
    QUERN_CASED(QUERN_CONTRACTIONS "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QUERN_SPACES;
constexpr const char* kYoutuPattern =
    QUERN_CASED(QUERN_CONTRACTIONS "?") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QUERN_SPACES;
constexpr const char* kDeepseekV3Pattern =
    QUERN_ASCII_PUNCTUATION R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kSparkPattern =
    QUERN_ASCII_PUNCTUATION R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kKimiK2Pattern =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" QUERN_CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" QUERN_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QUERN_SPACES;
constexpr const char* kBloomPattern = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr const char* kCjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kCjkHangul = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

// Scripts written without spaces, and Hangul.
constexpr const char* kAsianScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF})"
    R"(\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";

// DeepSeek LLM's letters: the cased ones of the scripts that have case.
constexpr const char* kDeepseekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943})"
    R"(]+)";

#undef QUERN_SPACES
#undef QUERN_CONTRACTIONS
#undef QUERN_UPPER
#undef QUERN_LOWER
#undef QUERN_CASED
#undef QUERN_ASCII_PUNCTUATION

// Matches and what lies between them become parts of their own.
Json isolated(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json digits(bool individual) {
  return {{"type", "Digits"}, {"individual_digits", individual}};
}

Json punctuation() {
  return {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
}

// Bytes become the alphabet of the vocabulary, split by GPT-2's pattern first if asked.
enum class ByteLevel { kNoSplit, kGpt2Split };
Json byte_level(ByteLevel split) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", split == ByteLevel::kGpt2Split}};
}

using Steps = std::vector<Json>;

Steps gpt2_after(Steps steps) {
  steps.push_back(byte_level(ByteLevel::kGpt2Split));
  return steps;
}

Steps patterns(std::initializer_list<const char*> list) {
  Steps steps;
  for (const char* pattern : list) steps.push_back(isolated(pattern));
  steps.push_back(byte_level(ByteLevel::kNoSplit));
  return steps;
}

Steps steps_of(Split split) {
  switch (split) {
    case Split::kGpt2: return gpt2_after({});
    case Split::kDigitsGpt2: return gpt2_after({digits(true)});
    case Split::kDefault: return patterns({R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"});
    case Split::kFalcon:
      return {punctuation(), byte_level(ByteLevel::kGpt2Split), digits(false), isolated("[0-9][0-9][0-9]")};
    case Split::kLlama3: return patterns({kLlama3Pattern});
    case Split::kLlama3Runs: return patterns({R"(\p{N}{1,3})", kLlama3RunsPattern});
    case Split::kJais2: return patterns({kJais2Pattern});
    case Split::kQwen2: return patterns({kQwen2Pattern});
    case Split::kQwen2NoContractions: return patterns({kQwen2NoContractionsPattern});
    case Split::kQwen2Lines: return patterns({R"([^\n]+|[\n]+)", kQwen2Pattern});
    case Split::kQwen35: return patterns({kQwen35Pattern});
    case Split::kBailing: return patterns({kBailingPattern});
    case Split::kSeedCoder: return patterns({kSeedCoderPattern});
    case Split::kExaoneMoe: return patterns({kExaoneMoePattern});
    case Split::kDeepseekLlm:
      return patterns({R"([\r\n])", kDeepseekLetters,
                       R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)", R"(\s+$)",
                       kCjkHangul, R"(\p{N}+)"});
    case Split::kDeepseekCoder: return patterns({R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjkHangul, R"(\p{N})"});
    case Split::kDeepseekV3: return patterns({R"(\p{N}{1,3})", kCjk, kDeepseekV3Pattern});
    case Split::kSpark: return patterns({R"(\p{N}{1,3})", kCjk, kSparkPattern, R"(\p{N})"});
    case Split::kYoutu:
      return patterns(
          {R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
           kYoutuPattern});
    case Split::kAfmoe:
      // Digits in groups of three from the right: first whole runs, then the odd one or two in front.
      return patterns({R"(\p{N}+)", R"(^\p{N}{1,2}(?=(?:\p{N}{3})+$)|\p{N}{3})", kAsianScripts, kDeepseekV3Pattern});
    case Split::kTekken: return patterns({kTekkenPattern});
    case Split::kO200k: return patterns({kO200kPattern});
    case Split::kTinyAya: return patterns({R"(\d{1,3}(?=(?:\d{3})*\b))", kO200kPattern});
    case Split::kKimiK2: return patterns({kKimiK2Pattern});
    case Split::kSuperBpe: return patterns({R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"});
    case Split::kBloom: return patterns({kBloomPattern});
    case Split::kViking: return patterns({kBloomPattern, R"(\p{N})"});
    case Split::kChameleon:
      return gpt2_after({isolated("<sentinel:[0-9]+>"), isolated("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                         isolated(R"(([\t\n]|    |  ))"), isolated(R"(\p{N})"), isolated(R"([\p{P}!-/:-@\[-`{-~])")});
  }
  return {};
}

}  // namespace

Result<PreTokenizer> pre_tokenizer_named(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Entry& entry : kEntries) {
    if (entry.name != name) continue;
    PreTokenizer found;
    if ((entry.flags & kNfc) != 0) found.normalizer = {{"type", "NFC"}};
    found.steps = {{"type", "Sequence"}, {"pretokenizers", steps_of(entry.split)}};
    found.ignore_merges = (entry.flags & kIgnoreMerges) != 0;
    found.adds_bos = (entry.flags & kAddBos) != 0;
    return found;
  }
  return unsupported(fmt::format("tokenizer.ggml.pre '{}' is not known", name));
}

}  // namespace quern
