#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "text/base64.h"
#include "text/gguf_special_tokens.h"
#include "text/pre_tokenizers.h"

namespace quern {
namespace {

constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's written space

// Everything the four algorithms read alike.
struct Source {
  const GgufMetadata* metadata;
  std::string model;
  std::string pre;
  const std::vector<std::string>* tokens;
  std::vector<GgufTokenType> types;
  GgufSpecialIds ids;

  bool has(GgufTokenType type) const { return std::ranges::find(types, type) != types.end(); }
};

Result<bool> flag(const GgufMetadata& metadata, const char* name, bool otherwise) {
  const std::string key = fmt::format("tokenizer.ggml.{}", name);
  if (metadata.find(key) == nullptr) return otherwise;
  return metadata.get_bool(key);
}

Result<std::string> text_or(const GgufMetadata& metadata, const char* key, const char* otherwise) {
  if (metadata.find(key) == nullptr) return otherwise;
  return metadata.get_string(key);
}

Result<std::vector<double>> read_scores(const Source& source) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  QUERN_ASSIGN(std::vector<double> scores, source.metadata->get_floats(kKey));
  if (scores.size() != source.tokens->size()) {
    return invalid_file(
        fmt::format("metadata {} has {} entries for {} tokens", kKey, scores.size(), source.tokens->size()));
  }
  return scores;
}

std::vector<uint8_t> in_text_of(const Source& source, std::initializer_list<GgufTokenType> types) {
  std::vector<uint8_t> in_text(source.types.size());
  for (size_t i = 0; i < in_text.size(); ++i) {
    in_text[i] = std::ranges::find(types, source.types[i]) != types.end();
  }
  return in_text;
}

Json replace(const char* what, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", content}};
}

// U+2581 for spaces, bytes as <0xNN>, and one space dropped in front where one was put there.
Json sentencepiece_decoder(bool strips_space) {
  Json steps = {replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (strips_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Json sentencepiece_bpe(const Source& source) {
  Json model = {{"type", "BPE"}, {"fuse_unk", true}, {"byte_fallback", source.has(GgufTokenType::kByte)}};
  if (source.ids.unk) model["unk_token"] = (*source.tokens)[static_cast<size_t>(*source.ids.unk)];
  return model;
}

struct Ends {
  std::optional<TokenId> start;
  std::optional<TokenId> end;
};

// The tokens put around a text: what the file says, else what its kind of model does.
Result<Ends> ends_of(const Source& source, bool adds_bos, bool adds_eos) {
  QUERN_ASSIGN(const bool bos, flag(*source.metadata, "add_bos_token", adds_bos));
  QUERN_ASSIGN(const bool eos, flag(*source.metadata, "add_eos_token", adds_eos));
  return Ends{bos ? source.ids.bos : std::nullopt, eos ? source.ids.eos : std::nullopt};
}

Result<GgufVocabulary> byte_level_bpe(const Source& source) {
  GgufVocabulary vocabulary;
  QUERN_ASSIGN(PreTokenizer pre, pre_tokenizer_named(source.pre));
  QUERN_ASSIGN(vocabulary.merges, source.metadata->get_strings("tokenizer.ggml.merges"));
  vocabulary.config["normalizer"] = std::move(pre.normalizer);
  vocabulary.config["pre_tokenizer"] = std::move(pre.steps);
  vocabulary.config["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}};
  vocabulary.config["model"] = {{"type", "BPE"}, {"ignore_merges", pre.ignore_merges}};
  // A file that is a vocabulary and nothing else (converters write no quantisation version into it) puts nothing around
  // a text unless it says so.
  const bool is_model = source.metadata->find("general.quantization_version") != nullptr;
  QUERN_ASSIGN(Ends ends, ends_of(source, pre.adds_bos && is_model, false));
  const bool roberta = source.pre == "roberta-bpe" || source.pre == "jina-v1-en" || source.pre == "jina-v2-code";
  QUERN_ASSIGN(const bool adds_sep, flag(*source.metadata, "add_sep_token", roberta));
  if (adds_sep) {
    ends = {source.ids.bos, source.ids.sep ? source.ids.sep : source.ids.eos};
  }
  const PairStyle style = adds_sep ? PairStyle::kRoberta : PairStyle::kDecoder;
  vocabulary.config["post_processor"] = post_processor_of(*source.tokens, ends.start, ends.end, style);
  return vocabulary;
}

// SentencePiece's BPE. Gemma 4's has merges; the others have the scores they follow from.
Result<GgufVocabulary> sentencepiece_vocabulary(const Source& source) {
  GgufVocabulary vocabulary;
  const bool has_merges = source.metadata->find("tokenizer.ggml.merges") != nullptr;
  if (has_merges) {
    QUERN_ASSIGN(vocabulary.merges, source.metadata->get_strings("tokenizer.ggml.merges"));
  } else {
    QUERN_ASSIGN(vocabulary.scores, read_scores(source));
    vocabulary.in_text = in_text_of(source, {GgufTokenType::kNormal});
  }
  QUERN_ASSIGN(const bool space_prefix, flag(*source.metadata, "add_space_prefix", source.model == "llama"));
  Json escape = replace(" ", kSpace);
  Json prefixed = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", kSpace}}, escape}}};
  vocabulary.config["normalizer"] = space_prefix ? std::move(prefixed) : std::move(escape);
  vocabulary.config["decoder"] = sentencepiece_decoder(space_prefix);
  vocabulary.config["model"] = sentencepiece_bpe(source);
  QUERN_ASSIGN(const Ends ends, ends_of(source, true, false));
  vocabulary.config["post_processor"] = post_processor_of(*source.tokens, ends.start, ends.end, PairStyle::kDecoder);
  return vocabulary;
}

Result<GgufVocabulary> unigram_vocabulary(const Source& source) {
  GgufVocabulary vocabulary;
  QUERN_ASSIGN(vocabulary.scores, read_scores(source));
  // The library finds byte pieces by name, so these stay known to it.
  vocabulary.in_text = in_text_of(source, {GgufTokenType::kNormal, GgufTokenType::kUserDefined, GgufTokenType::kByte});
  constexpr const char* kCharsmap = "tokenizer.ggml.precompiled_charsmap";
  if (source.metadata->find(kCharsmap) != nullptr) {
    QUERN_ASSIGN(const std::vector<int64_t> numbers, source.metadata->get_ints(kCharsmap));
    std::string charsmap(numbers.size(), '\0');
    std::ranges::transform(numbers, charsmap.begin(), [](int64_t number) { return static_cast<char>(number); });
    vocabulary.config["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", base64_encode(charsmap)}};
  }
  QUERN_ASSIGN(const bool space_prefix, flag(*source.metadata, "add_space_prefix", true));
  QUERN_ASSIGN(const bool squeeze, flag(*source.metadata, "remove_extra_whitespaces", true));
  const Json metaspace = {{"type", "Metaspace"},
                          {"replacement", kSpace},
                          {"prepend_scheme", space_prefix ? "always" : "never"},
                          {"split", true}};
  Json steps = Json::array();
  if (squeeze) steps.push_back({{"type", "WhitespaceSplit"}});
  steps.push_back(metaspace);
  vocabulary.config["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  vocabulary.config["decoder"] = metaspace;
  if (!source.ids.unk)
    return invalid_file("metadata tokenizer.ggml.unknown_token_id is missing for a Unigram vocabulary");
  vocabulary.config["model"] = {
      {"type", "Unigram"}, {"unk_id", *source.ids.unk}, {"byte_fallback", source.has(GgufTokenType::kByte)}};
  QUERN_ASSIGN(const Ends ends, ends_of(source, false, true));
  const PairStyle style = ends.start ? PairStyle::kRoberta : PairStyle::kT5;
  vocabulary.config["post_processor"] = post_processor_of(*source.tokens, ends.start, ends.end, style);
  return vocabulary;
}

// GGUF marks the starts of words, Hugging Face their continuations; both leave names like [unused1] alone.
std::string wordpiece_spelling(const std::string& token, GgufTokenType type) {
  constexpr std::string_view kWordStart = kSpace;
  const bool bracketed = token.size() > 2 && token.starts_with('[') && token.ends_with(']');
  if (type != GgufTokenType::kNormal || bracketed) return token;
  if (token.starts_with(kWordStart)) return token.substr(kWordStart.size());
  return "##" + token;
}

Result<GgufVocabulary> wordpiece_vocabulary(const Source& source) {
  GgufVocabulary vocabulary;
  vocabulary.respelled.reserve(source.tokens->size());
  for (size_t i = 0; i < source.tokens->size(); ++i) {
    vocabulary.respelled.push_back(wordpiece_spelling((*source.tokens)[i], source.types[i]));
  }
  QUERN_ASSIGN(const bool lowercase, flag(*source.metadata, "normalizer.lowercase", true));
  QUERN_ASSIGN(const bool strip_accents, flag(*source.metadata, "normalizer.strip_accents", lowercase));
  vocabulary.config["normalizer"] = {{"type", "BertNormalizer"},
                                     {"clean_text", true},
                                     {"handle_chinese_chars", true},
                                     {"strip_accents", strip_accents},
                                     {"lowercase", lowercase}};
  vocabulary.config["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  vocabulary.config["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  if (!source.ids.unk)
    return invalid_file("metadata tokenizer.ggml.unknown_token_id is missing for a WordPiece vocabulary");
  vocabulary.config["model"] = {{"type", "WordPiece"},
                                {"unk_token", (*source.tokens)[static_cast<size_t>(*source.ids.unk)]},
                                {"continuing_subword_prefix", "##"},
                                {"max_input_chars_per_word", 100}};
  const auto start = source.ids.cls ? source.ids.cls : source.ids.bos;
  const auto end = source.ids.sep ? source.ids.sep : source.ids.eos;
  vocabulary.config["post_processor"] = post_processor_of(*source.tokens, start, end, PairStyle::kBert);
  return vocabulary;
}

// Files of some kinds leave out ids that every model of the kind shares.
void fill_in_ids(Source& source) {
  const auto fill = [&](std::optional<TokenId>& id, TokenId usual) {
    if (!id && static_cast<size_t>(usual) < source.tokens->size()) id = usual;
  };
  const auto find = [&](std::optional<TokenId>& id, std::string_view piece) {
    if (id) return;
    const auto it = std::ranges::find(*source.tokens, piece);
    if (it != source.tokens->end()) id = static_cast<TokenId>(it - source.tokens->begin());
  };
  if (source.model == "llama") {
    fill(source.ids.unk, 0);
    fill(source.ids.bos, 1);
    fill(source.ids.eos, 2);
  } else if (source.model == "bert") {
    // Many say start and end only, and the usual numbers are those of BERT's own vocabulary.
    if (!source.ids.cls) source.ids.cls = source.ids.bos;
    if (!source.ids.sep) source.ids.sep = source.ids.eos;
    find(source.ids.unk, "[UNK]");
    find(source.ids.cls, "[CLS]");
    find(source.ids.sep, "[SEP]");
    fill(source.ids.unk, 100);
    fill(source.ids.cls, 101);
    fill(source.ids.sep, 102);
  } else if (source.model == "t5") {
    fill(source.ids.eos, 1);
    fill(source.ids.unk, 2);
  }
}

Result<GgufVocabulary> read_vocabulary(const Source& source) {
  if (source.model == "gpt2") {
    // SentencePiece-like BPE that a converter filed under byte-level BPE.
    const bool is_sentencepiece =
        source.pre == "gemma4" || source.pre == "granite-embed-multi-311m" || source.pre == "sarvam-moe";
    return is_sentencepiece ? sentencepiece_vocabulary(source) : byte_level_bpe(source);
  }
  if (source.model == "llama" || source.model == "gemma4") return sentencepiece_vocabulary(source);
  if (source.model == "t5") return unigram_vocabulary(source);
  if (source.model == "bert") return wordpiece_vocabulary(source);
  return unsupported(fmt::format("tokenizer.ggml.model '{}' is not known", source.model));
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufMetadata& metadata) {
  Source source = {.metadata = &metadata};
  QUERN_ASSIGN(source.model, metadata.get_string("tokenizer.ggml.model"));
  QUERN_ASSIGN(source.pre, text_or(metadata, "tokenizer.ggml.pre", ""));
  QUERN_ASSIGN(source.tokens, metadata.get_strings("tokenizer.ggml.tokens"));
  QUERN_ASSIGN(source.types, read_token_types(metadata, source.tokens->size()));
  QUERN_ASSIGN(source.ids, read_special_ids(metadata, source.tokens->size()));
  fill_in_ids(source);
  QUERN_ASSIGN(GgufVocabulary vocabulary, read_vocabulary(source));
  vocabulary.tokens = source.tokens;
  vocabulary.config["added_tokens"] = added_tokens_of(*source.tokens, source.types);
  vocabulary.facts = facts_of(source.ids, *source.tokens, source.types);
  return vocabulary;
}

}  // namespace quern
