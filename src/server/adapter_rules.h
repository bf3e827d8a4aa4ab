// Whether clients may load LoRA adapters while the server runs, and from where: loading reads files of this machine.
#pragma once

#include <filesystem>
#include <string>

#include "server/api_error.h"

namespace quern {

struct AdapterRules {
  bool updates_allowed = false;  // --allow-runtime-lora-updating, or what stands for it
  std::filesystem::path folder;  // --lora-dir, links resolved; empty: any path

  // Why adapters must not be loaded or unloaded, 403.
  ApiResult<void> check_updates() const;
  // The path to load from: links resolved, a relative one starts at the folder. 403 when it, or a file right inside it,
  // lies elsewhere; the error does not tell whether that exists.
  ApiResult<std::filesystem::path> resolve(const std::string& path) const;
};

}  // namespace quern
