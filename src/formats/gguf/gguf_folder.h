// Folders that hold GGUF files, as downloads of split sets come.
#pragma once

#include <filesystem>
#include <string>

#include "quern/status.h"

namespace quern {

// The file to open for `path`: of a folder without config.json whose GGUF files are one model, whole or split, its
// first file; otherwise `path` itself. kInvalidArgument names the models when there are several.
Result<std::filesystem::path> gguf_in_folder(const std::filesystem::path& path);

// "model" of "model-00002-of-00003.gguf" and of "model.gguf".
std::string gguf_model_name(const std::filesystem::path& file);

}  // namespace quern
