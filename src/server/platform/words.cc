#include "server/platform/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"

namespace quern::platform {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

std::string_view second_of(std::span<const Words> words, std::string_view first) {
  const auto it = std::ranges::find(words, first, &Words::first);
  return it == words.end() ? std::string_view() : it->second;
}

}  // namespace

FormatWords format_words(std::string_view format, std::string_view quantization) {
  const std::string scheme(quantization);
  if (format == "gguf") return {"ggufv2", scheme.empty() ? "none" : scheme};
  if (format != "safetensors") return {std::string(format), scheme.empty() ? "none" : scheme};
  // To Xinference a way of quantising is a format.
  for (const std::string_view name : {"awq", "gptq", "fp8", "bnb", "fp4"}) {
    if (!scheme.starts_with(name)) continue;
    std::string bits = scheme.size() > name.size() ? scheme.substr(name.size() + 1) : "none";
    if (bits.starts_with("int")) bits[0] = 'I';
    return {std::string(name), bits};
  }
  return {"pytorch", scheme.empty() ? "none" : scheme};
}

Json size_word(double billions) {
  if (!(billions > 0)) return nullptr;
  if (billions == std::floor(billions) && billions < 1e9) return static_cast<int64_t>(billions);
  std::string text = fmt::format("{:.4g}", billions);
  std::ranges::replace(text, '.', '_');
  return text;
}

Json size_word(std::string_view size) {
  std::string text(size);
  std::ranges::replace(text, '_', '.');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return nullptr;
  const std::string_view unit(end, text.data() + text.size() - end);
  if (unit == "m" || unit == "M") return size_word(value / 1000);
  if (unit.empty() || unit == "b" || unit == "B") return size_word(value);
  return nullptr;
}

std::vector<std::string> ability_words(const std::vector<std::string>& abilities) {
  static constexpr auto kWords = std::to_array<Words>({{"completion", "generate"},
                                                       {"draw", "text2image"},
                                                       {"edit", "image2image"},
                                                       {"inpaint", "inpainting"},
                                                       {"transcribe", "audio2text"},
                                                       {"speak", "text2audio"},
                                                       {"clone", "text2audio_voice_cloning"}});
  std::vector<std::string> words;
  for (const std::string& ability : abilities) {
    const std::string_view word = second_of(kWords, ability);
    words.emplace_back(word.empty() ? std::string_view(ability) : word);
  }
  return words;
}

std::string_view hub_word(SourceKind kind) {
  switch (kind) {
    case SourceKind::kHf: return "huggingface";
    case SourceKind::kModelScope: return "modelscope";
    case SourceKind::kPypi:
    case SourceKind::kPypiFolder: return "pypi";
    case SourceKind::kPath: return "local";
    case SourceKind::kUrl: return "url";
  }
  return "local";
}

std::string_view replica_word(ReplicaState state) {
  switch (state) {
    case ReplicaState::kWaiting: return "CREATING";
    case ReplicaState::kPulling:
    case ReplicaState::kLoading: return "LOADING";
    case ReplicaState::kReady: return "READY";
    case ReplicaState::kDraining: return "TERMINATING";
    case ReplicaState::kBackoff:
    case ReplicaState::kLost: return "ERROR";
    case ReplicaState::kStopped: return "TERMINATED";
  }
  return "ERROR";
}

std::string_view type_word(std::string_view type) {
  for (const std::string_view word : {"LLM", "embedding", "rerank", "image", "audio"}) {
    if (same_name(word, type)) return word;
  }
  return {};
}

std::string version_word(const CatalogModel& model, const CatalogVariant& variant) {
  const auto [format, quantization] = format_words(variant.format, variant.quantization);
  std::string size = size_word(variant.size).dump();
  std::erase(size, '"');
  if (size == "null") return fmt::format("{}--{}--{}", model.name, format, quantization);
  return fmt::format("{}--{}B--{}--{}", model.name, size, format, quantization);
}

int64_t replica_index(const std::string& replica_id) {
  const size_t dash = replica_id.rfind('-');
  int64_t index = -1;
  const char* const end = replica_id.data() + replica_id.size();
  const char* const begin = dash == std::string::npos ? end : replica_id.data() + dash + 1;
  const auto [stop, error] = std::from_chars(begin, end, index);
  return error == std::errc() && stop == end && index >= 0 ? index : -1;
}

}  // namespace quern::platform
