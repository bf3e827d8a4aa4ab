#include "server/adapter_rules.h"

#include <algorithm>
#include <system_error>

namespace quern {
namespace {

namespace fs = std::filesystem;

ApiError forbidden(std::string message, std::string param = "") {
  return {.status = 403, .message = std::move(message), .type = "permission_error", .param = std::move(param)};
}

// Both without links and dots.
bool lies_below(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, rest] = std::ranges::mismatch(folder, path);
  return in_folder == folder.end() && rest != path.end();
}

// Of a path that exists in parts only, the rest is taken as it is written.
fs::path without_links(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(path, error);
  return error ? fs::path() : resolved;
}

bool files_lie_below(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (!lies_below(without_links(entry->path()), folder)) return false;
  }
  return true;
}

}  // namespace

ApiResult<void> AdapterRules::check_updates() const {
  if (updates_allowed) return {};
  return std::unexpected(
      forbidden("adapters may not be loaded or unloaded here: the server was started without "
                "--allow-runtime-lora-updating"));
}

ApiResult<fs::path> AdapterRules::resolve(const std::string& path) const {
  if (path.find('\0') != std::string::npos) return bad_field("lora_path", "lora_path: holds a NUL");
  if (folder.empty()) return fs::path(path);
  const fs::path resolved = without_links(folder / path);
  if (!lies_below(resolved, folder) || !files_lie_below(resolved, folder)) {
    return std::unexpected(forbidden("lora_path: must lie below the folder of --lora-dir", "lora_path"));
  }
  return resolved;
}

}  // namespace quern
