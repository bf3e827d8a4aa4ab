// For tests: where tokenizers that are not stored with the golden vectors may lie.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"

namespace quern::testing {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(QUERN_TEST_DATA) / "golden" / name;
}

// A file of the folders QUERN_TEST_TOKENIZERS and QUERN_TEST_MODELS name; nullopt when it is not there.
inline std::optional<std::filesystem::path> extra_file(const std::string& name) {
  for (const char* variable : {"QUERN_TEST_TOKENIZERS", "QUERN_TEST_MODELS"}) {
    const char* folder = std::getenv(variable);
    if (folder == nullptr) continue;
    std::filesystem::path path = std::filesystem::path(folder) / name;
    if (std::filesystem::exists(path)) return path;
  }
  return std::nullopt;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline std::vector<Json> read_json_lines(const std::filesystem::path& path) {
  std::vector<Json> lines;
  std::istringstream stream(read_text(path));
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace quern::testing
