#include "text/tokenizer_config.h"

#include <array>
#include <string_view>

namespace quern {
namespace {

constexpr auto kNames = std::to_array<std::string_view>(
    {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "image_token",
     "audio_token", "video_token", "boi_token", "eoi_token", "boa_token", "eoa_token"});

constexpr auto kClasses =
    std::to_array<std::string_view>({"LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer",
                                     "CodeLlamaTokenizerFast", "GemmaTokenizer", "GemmaTokenizerFast"});

std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return std::nullopt;
}

std::optional<bool> flag(const Json& config, const char* name) {
  if (!config.contains(name) || !config[name].is_boolean()) return std::nullopt;
  return config[name].get<bool>();
}

struct Part {
  std::string text;
  int64_t id = -1;
};

Part part_of(const Json& config, const char* name, const QuernTokenizer& handle) {
  if (!config.contains(name)) return {};
  const auto text = token_text(config[name]);
  if (!text) return {};
  return {*text, quern_tokenizer_token_id(&handle, rust::bytes(*text))};
}

void add_token(Json& parts, const Part& part, int type_id) {
  if (part.id >= 0) parts.push_back({{"SpecialToken", {{"id", part.text}, {"type_id", type_id}}}});
}

}  // namespace

std::vector<std::pair<std::string, std::string>> special_tokens_of(const Json& config) {
  std::vector<std::pair<std::string, std::string>> tokens;
  if (!config.is_object()) return tokens;
  for (const auto& [name, value] : config.items()) {
    if (std::ranges::find(kNames, name) == kNames.end()) continue;
    if (auto text = token_text(value)) tokens.emplace_back(name, std::move(*text));
  }
  return tokens;
}

std::optional<Json> post_processor_override(const Json& config, const QuernTokenizer& handle) {
  if (!config.is_object()) return std::nullopt;
  const Json kind = config.value("tokenizer_class", Json());
  if (!kind.is_string() || std::ranges::find(kClasses, kind.get<std::string>()) == kClasses.end()) return std::nullopt;
  const auto adds_bos = flag(config, "add_bos_token");
  const auto adds_eos = flag(config, "add_eos_token");
  if (!adds_bos && !adds_eos) return std::nullopt;
  // The class adds a start token and no end token unless told otherwise.
  const Part bos = adds_bos.value_or(true) ? part_of(config, "bos_token", handle) : Part();
  const Part eos = adds_eos.value_or(false) ? part_of(config, "eos_token", handle) : Part();
  Json single = Json::array();
  Json pair = Json::array();
  for (const int type_id : {0, 1}) {
    Json half = Json::array();
    add_token(half, bos, type_id);
    half.push_back({{"Sequence", {{"id", type_id == 0 ? "A" : "B"}, {"type_id", type_id}}}});
    add_token(half, eos, type_id);
    if (type_id == 0) single = half;
    pair.insert(pair.end(), half.begin(), half.end());
  }
  Json special_tokens = Json::object();
  for (const Part* part : {&bos, &eos}) {
    if (part->id >= 0) special_tokens[part->text] = {{"id", part->text}, {"ids", {part->id}}, {"tokens", {part->text}}};
  }
  return Json{{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special_tokens}};
}

}  // namespace quern
