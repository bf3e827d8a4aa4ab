// What a user may write where a command says MODEL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "quern/status.h"

namespace quern {

enum class ModelNameKind : uint8_t { kPath, kCatalog, kHf, kModelScope, kPypi, kUrl };

struct ModelName {
  ModelNameKind kind = ModelNameKind::kPath;
  std::string name;  // path, catalogue name, "org/repo", package, or URL
  std::string
      tag;  // catalogue: "0.5b-q4_k_m"; hub: a file name or a quantisation like "Q4_K_M"; pypi: path in the wheel
  std::string revision;  // hub: branch, tag or commit (default "main"); pypi: version
};

// hf:org/repo[@revision][:file], modelscope:…, pypi:package[==version][:member], https://…, name[:tag], or a path (has
// a slash, ends in .gguf, or exists). Repository, package and file names are checked: kInvalidArgument names the bad
// part.
Result<ModelName> parse_model_name(const std::string& text);

// A relative path that stays inside its folder: no "..", no absolute or empty part, no backslash or control character.
bool is_safe_relative_path(const std::string& path);

// https, or http to this machine.
bool is_allowed_url(const std::string& url);

}  // namespace quern
