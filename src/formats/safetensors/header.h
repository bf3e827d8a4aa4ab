// The JSON header of a safetensors file and the JSON index of a sharded one, read event by event: what they may hold is
// so narrow that no tree is built, and depth and memory are bounded by construction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // as the official library has it

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes of the data section, as claimed; the caller checks them
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // in header order
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// {"__metadata__": {string: string}, NAME: {"dtype": string, "shape": [ints], "data_offsets": [begin, end]}, …}
// Errors: kInvalidFile, one line beginning with `name`. Names are not checked for duplicates.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view name);

// The "weight_map" of an index: (tensor, file) in index order, as written; the caller checks the file names.
// Other members are skipped. Errors as above.
Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view json,
                                                                                 std::string_view name);

}  // namespace quern
