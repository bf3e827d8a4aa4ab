// Folders that hold GGUF files, as downloads of split sets come.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern {

// The file to open for `path`: of a folder whose only weights are GGUF files of one model, whole or split, its first
// file, whether or not a config.json lies beside it; otherwise `path` itself. kInvalidArgument names the models when
// there are several.
Result<std::filesystem::path> gguf_in_folder(const std::filesystem::path& path);

// Where a file's name puts it in a split set.
struct GgufPartName {
  std::string stem;  // "dir/model" of "dir/model-00002-of-00003.gguf"
  int32_t part = 0;  // 2; from 1
  int32_t num_parts = 0;

  std::string file_of(int32_t part) const;  // the name of another part
};
// nullopt: `path` is named like no part, or like one that its set has no place for.
std::optional<GgufPartName> gguf_part_name(std::string_view path);

// "model" of "model-00002-of-00003.gguf" and of "model.gguf".
std::string gguf_model_name(const std::filesystem::path& file);

}  // namespace quern
