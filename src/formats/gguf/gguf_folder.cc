#include "formats/gguf/gguf_folder.h"

#include <algorithm>
#include <map>

#include "base/status.h"
#include "formats/printable.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";
constexpr size_t kDigits = 5;  // of NAME-00001-of-00003

bool is_number(std::string_view text) {
  return text.size() == kDigits && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string gguf_model_name(const fs::path& file) {
  const std::string stem = file.stem().string();
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kPart = 1 + kDigits + kOf.size() + kDigits;
  if (stem.size() <= kPart) return stem;
  const std::string_view part = std::string_view(stem).substr(stem.size() - kPart);
  const bool fits = part[0] == '-' && is_number(part.substr(1, kDigits)) &&
                    part.substr(1 + kDigits, kOf.size()) == kOf && is_number(part.substr(1 + kDigits + kOf.size()));
  return fits ? stem.substr(0, stem.size() - kPart) : stem;
}

Result<fs::path> gguf_in_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error) || fs::exists(path / "config.json", error)) return path;
  std::map<std::string, fs::path> models;  // by name: its first file
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& file = entry->path();
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
