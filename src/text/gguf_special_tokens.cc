#include "text/gguf_special_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/status.h"

namespace quern {
namespace {

// Texts by which model families end a turn or an answer.
constexpr auto kEndTexts = std::to_array<std::string_view>({
    "<|eot_id|>",         "<|eom_id|>",      "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>",
    "<|endoftext|>",      "<|end_of_text|>", "<EOT>",      "_<EOT>",  "[EOT]",         "<｜end▁of▁sentence｜>",
    "<end_of_utterance>", "<|return|>",      "<|call|>",   "<eos>",   "</s>",          "<|END_OF_TURN_TOKEN|>",
    "<|observation|>",    "[EOS]",           "<|eot|>",
});

bool is_special(GgufTokenType type) {
  return type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
}

Result<std::optional<TokenId>> read_id(const GgufMetadata& metadata, const char* name, size_t num_tokens) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  if (metadata.find(key) == nullptr) return std::nullopt;
  QUERN_ASSIGN(const int64_t id, metadata.get_int(key));
  // Converters write the largest unsigned number, or -1, for "none".
  if (id == -1 || id == UINT32_MAX) return std::nullopt;
  if (id < 0 || static_cast<uint64_t>(id) >= num_tokens) {
    return invalid_file(fmt::format("metadata {} is {}, outside the vocabulary of {}", key, id, num_tokens));
  }
  return static_cast<TokenId>(id);
}

}  // namespace

Result<std::vector<GgufTokenType>> read_token_types(const GgufMetadata& metadata, size_t num_tokens) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  std::vector<GgufTokenType> types(num_tokens, GgufTokenType::kNormal);
  if (metadata.find(kKey) == nullptr) return types;
  QUERN_ASSIGN(const std::vector<int64_t> numbers, metadata.get_ints(kKey));
  if (numbers.size() != num_tokens) {
    return invalid_file(fmt::format("metadata {} has {} entries for {} tokens", kKey, numbers.size(), num_tokens));
  }
  for (size_t i = 0; i < num_tokens; ++i) {
    if (numbers[i] < 0 || numbers[i] > 6) {
      return invalid_file(fmt::format("metadata {} of token {} is {}, not 0 to 6", kKey, i, numbers[i]));
    }
    types[i] = static_cast<GgufTokenType>(numbers[i]);
  }
  return types;
}

Result<GgufSpecialIds> read_special_ids(const GgufMetadata& metadata, size_t num_tokens) {
  GgufSpecialIds ids;
  const std::pair<const char*, std::optional<TokenId>*> names[] = {
      {"bos", &ids.bos},     {"eos", &ids.eos},     {"eot", &ids.eot},
      {"eom", &ids.eom},     {"unknown", &ids.unk}, {"seperator", &ids.sep},  // spelled so in the specification
      {"padding", &ids.pad}, {"cls", &ids.cls},     {"mask", &ids.mask},
  };
  for (const auto& [name, id] : names) {
    QUERN_ASSIGN(*id, read_id(metadata, name, num_tokens));
  }
  return ids;
}

TokenizerFacts facts_of(const GgufSpecialIds& ids, const std::vector<std::string>& tokens,
                        const std::vector<GgufTokenType>& types) {
  TokenizerFacts facts;
  facts.bos_id = ids.bos;
  const auto add_end = [&](TokenId id) {
    if (std::ranges::find(facts.eos_ids, id) == facts.eos_ids.end()) facts.eos_ids.push_back(id);
  };
  for (const auto& id : {ids.eos, ids.eot, ids.eom}) {
    if (id) add_end(*id);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (types[i] != GgufTokenType::kControl) continue;
    if (std::ranges::find(kEndTexts, tokens[i]) != kEndTexts.end()) add_end(static_cast<TokenId>(i));
  }
  const std::pair<const char*, std::optional<TokenId>> names[] = {
      {"bos_token", ids.bos}, {"eos_token", ids.eos}, {"unk_token", ids.unk},   {"sep_token", ids.sep},
      {"pad_token", ids.pad}, {"cls_token", ids.cls}, {"mask_token", ids.mask},
  };
  for (const auto& [name, id] : names) {
    if (id) facts.special_tokens.emplace_back(name, tokens[static_cast<size_t>(*id)]);
  }
  return facts;
}

Json added_tokens_of(const std::vector<std::string>& tokens, const std::vector<GgufTokenType>& types) {
  Json added = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool special = is_special(types[i]);
    if (!special && types[i] != GgufTokenType::kUserDefined) continue;
    added.push_back({{"id", i},
                     {"content", tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

Json post_processor_of(const std::vector<std::string>& tokens, std::optional<TokenId> start, std::optional<TokenId> end,
                       PairStyle style) {
  Json special_tokens = Json::object();
  const auto add_token = [&](Json& parts, std::optional<TokenId> id, int type_id) {
    if (!id) return;
    const std::string& text = tokens[static_cast<size_t>(*id)];
    special_tokens[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
    parts.push_back({{"SpecialToken", {{"id", text}, {"type_id", type_id}}}});
  };
  const auto add_text = [](Json& parts, const char* name, int type_id) {
    parts.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
  };
  Json single = Json::array();
  add_token(single, start, 0);
  add_text(single, "A", 0);
  add_token(single, end, 0);
  Json pair = single;
  const int second_type = style == PairStyle::kRoberta || style == PairStyle::kT5 ? 0 : 1;
  if (style == PairStyle::kDecoder) add_token(pair, start, second_type);
  if (style == PairStyle::kRoberta) add_token(pair, end, second_type);
  add_text(pair, "B", second_type);
  add_token(pair, end, second_type);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special_tokens}};
}

}  // namespace quern
