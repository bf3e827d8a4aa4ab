// The parser of one GGUF file's bytes, without the file system and without split sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf_value.h"
#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// The format, little-endian:
//
//   "GGUF"  u32 version  u64 num_tensors  u64 num_pairs
//   num_pairs   × { string key, u32 type, value }        string: u64 size, bytes
//   num_tensors × { string name, u32 num_dims, num_dims × u64, u32 type, u64 offset }
//   padding to `general.alignment` (32 when absent)
//   data; offsets count from here and are multiples of the alignment
struct GgufPart {
  uint32_t version = 0;
  GgufMetadata metadata;            // keys are unique
  std::vector<TensorView> tensors;  // in file order, names unique, data in bounds, aligned and disjoint
};

// `bytes` must outlive the result. Errors: kInvalidFile, one line beginning with `name`.
Result<GgufPart> parse_gguf_part(std::span<const std::byte> bytes, std::string_view name);

}  // namespace quern
