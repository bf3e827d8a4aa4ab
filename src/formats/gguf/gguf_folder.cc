#include "formats/gguf/gguf_folder.h"

#include <algorithm>
#include <map>

#include "base/status.h"
#include "formats/printable.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;                                     // of NAME-00001-of-00003
constexpr size_t kPartSize = 1 + kDigits + kOf.size() + kDigits;  // what follows NAME

bool is_number(std::string_view text) {
  return text.size() == kDigits && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool ends_as_part(std::string_view stem) {
  if (stem.size() <= kPartSize) return false;
  const std::string_view part = stem.substr(stem.size() - kPartSize);
  return part[0] == '-' && is_number(part.substr(1, kDigits)) && part.substr(1 + kDigits, kOf.size()) == kOf &&
         is_number(part.substr(1 + kDigits + kOf.size()));
}

// Weights that go with a config.json. Of those there is no reader for, the loader says so.
bool is_weights_of_folder(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".safetensors") || name == "model.safetensors.index.json" || name.starts_with("pytorch_model");
}

}  // namespace

std::string GgufPartName::file_of(int32_t wanted) const {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, wanted, num_parts, kExtension);
}

std::optional<GgufPartName> gguf_part_name(std::string_view path) {
  if (!path.ends_with(kExtension)) return std::nullopt;
  path.remove_suffix(kExtension.size());
  if (!ends_as_part(path)) return std::nullopt;
  const auto number = [](std::string_view digits) {
    int32_t value = 0;
    for (const char c : digits) value = 10 * value + (c - '0');
    return value;
  };
  GgufPartName name{.stem = std::string(path.substr(0, path.size() - kPartSize)),
                    .part = number(path.substr(path.size() - kPartSize + 1, kDigits)),
                    .num_parts = number(path.substr(path.size() - kDigits))};
  if (name.part < 1 || name.part > name.num_parts) return std::nullopt;
  return name;
}

std::string gguf_model_name(const fs::path& file) {
  const std::string stem = file.stem().string();
  return ends_as_part(stem) ? stem.substr(0, stem.size() - kPartSize) : stem;
}

Result<fs::path> gguf_in_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const bool has_config = fs::exists(path / "config.json", error);
  std::map<std::string, fs::path> models;  // by name: its first file
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& file = entry->path();
    if (has_config && is_weights_of_folder(file)) return path;
    if (file.extension() != kExtension) continue;
    fs::path& first = models[gguf_model_name(file)];
    if (first.empty() || file < first) first = file;
  }
  if (models.empty()) return path;
  if (models.size() == 1) return models.begin()->second;
  std::string names;
  for (const auto& [name, file] : models) names += (names.empty() ? "" : ", ") + printable(name);
  return invalid_argument(fmt::format("{}: holds several models, name one of them: {}", path.string(), names));
}

}  // namespace quern
