// Element types of tensors in files and in memory, and the one table of block-quantised layouts.
//
// A block type stores `block_elements` consecutive elements of a row in `block_bytes` bytes. Plain types have blocks of
// one element. Numbers of GGUF types: ggml's `enum ggml_type` (GGUF specification, "Tensor types").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kQ1_0,
  kQ2_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIQ1S,
  kIQ1M,
  kIQ2XXS,
  kIQ2XS,
  kIQ2S,
  kIQ3XXS,
  kIQ3S,
  kIQ4NL,
  kIQ4XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;         // as GGUF and users write it: "Q4_K", "BF16"
  int32_t block_elements;        // elements per block
  int32_t block_bytes;           // bytes per block
  int32_t gguf_id;               // -1: does not occur in GGUF
  std::string_view safetensors;  // name in a safetensors header; empty: does not occur there
};

const DTypeInfo& dtype_info(DType dtype);
std::optional<DType> dtype_from_gguf(uint32_t gguf_id);
std::optional<DType> dtype_from_safetensors(std::string_view name);
std::optional<DType> dtype_from_name(std::string_view name);  // upper or lower case

inline bool is_quantized(DType dtype) {
  return dtype_info(dtype).block_elements > 1;
}

// Bytes of `elements` elements; `elements` must be a multiple of the block. nullopt when the product overflows.
std::optional<uint64_t> dtype_bytes(DType dtype, uint64_t elements);

}  // namespace quern
