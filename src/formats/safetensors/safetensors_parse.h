// The parser of one safetensors file's bytes, without the file system and without shards.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// The format: u64 header size, JSON header (padded with spaces), data. The tensors cover the data without hole or
// overlap.
struct SafetensorsPart {
  std::vector<TensorView> tensors;  // in data order, names unique
  std::map<std::string, std::string> metadata;
};

// `bytes` must outlive the result. Errors: kInvalidFile, one line beginning with `name`.
Result<SafetensorsPart> parse_safetensors_part(std::span<const std::byte> bytes, std::string_view name);

}  // namespace quern
