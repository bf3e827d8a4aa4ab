// YAML to a tree, within limits: what a configuration file may be. yaml-cpp reads; this bounds and remembers lines.
//
// Refused: more than one document, keys that are no plain text or stand twice, tags, deeper or larger than the limits
// below. An alias is a copy that counts in full, so that a few lines cannot stand for millions of nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/status.h"

namespace quern {

inline constexpr size_t kYamlBytesMax = 256 << 10;
inline constexpr size_t kYamlScalarBytesMax = 4096;
inline constexpr int32_t kYamlDepthMax = 16;
inline constexpr int32_t kYamlNodesMax = 10000;

enum class YamlKind : uint8_t { kNull, kScalar, kList, kMap };
const char* yaml_kind_name(YamlKind kind);  // "null", "a value", "a list", "a map"

struct YamlNode {
  YamlKind kind = YamlKind::kNull;
  int32_t line = 0;      // from 1
  int32_t key_line = 0;  // of its key, where it has one
  std::string text;      // of a scalar
  std::vector<YamlNode> items;
  std::vector<std::pair<std::string, YamlNode>> entries;  // in the order of the file

  const YamlNode* find(std::string_view key) const;  // of a map
};

// An error is kInvalidFile and begins with the line: "3: …". Text without a document is an empty map.
Result<YamlNode> read_yaml(std::string_view text);

}  // namespace quern
