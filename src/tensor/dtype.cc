#include "tensor/dtype.h"

#include <array>
#include <limits>

#include "base/check.h"

namespace quern {
namespace {

// Block layouts: ggml's quantised types (GGUF specification); names in a header: safetensors format description.
constexpr auto kTable = std::to_array<DTypeInfo>({
    {DType::kF32, "F32", 1, 4, 0, "F32"},
    {DType::kF16, "F16", 1, 2, 1, "F16"},
    {DType::kBF16, "BF16", 1, 2, 30, "BF16"},
    {DType::kF64, "F64", 1, 8, 28, "F64"},
    {DType::kF8E4M3, "F8_E4M3", 1, 1, -1, "F8_E4M3"},
    {DType::kF8E5M2, "F8_E5M2", 1, 1, -1, "F8_E5M2"},
    {DType::kI8, "I8", 1, 1, 24, "I8"},
    {DType::kI16, "I16", 1, 2, 25, "I16"},
    {DType::kI32, "I32", 1, 4, 26, "I32"},
    {DType::kI64, "I64", 1, 8, 27, "I64"},
    {DType::kU8, "U8", 1, 1, -1, "U8"},
    {DType::kU16, "U16", 1, 2, -1, "U16"},
    {DType::kU32, "U32", 1, 4, -1, "U32"},
    {DType::kU64, "U64", 1, 8, -1, "U64"},
    {DType::kBool, "BOOL", 1, 1, -1, "BOOL"},
    {DType::kQ1_0, "Q1_0", 128, 18, 41, ""},
    {DType::kQ2_0, "Q2_0", 64, 18, 42, ""},
    {DType::kQ4_0, "Q4_0", 32, 18, 2, ""},
    {DType::kQ4_1, "Q4_1", 32, 20, 3, ""},
    {DType::kQ5_0, "Q5_0", 32, 22, 6, ""},
    {DType::kQ5_1, "Q5_1", 32, 24, 7, ""},
    {DType::kQ8_0, "Q8_0", 32, 34, 8, ""},
    {DType::kQ2K, "Q2_K", 256, 84, 10, ""},
    {DType::kQ3K, "Q3_K", 256, 110, 11, ""},
    {DType::kQ4K, "Q4_K", 256, 144, 12, ""},
    {DType::kQ5K, "Q5_K", 256, 176, 13, ""},
    {DType::kQ6K, "Q6_K", 256, 210, 14, ""},
    {DType::kIQ1S, "IQ1_S", 256, 50, 19, ""},
    {DType::kIQ1M, "IQ1_M", 256, 56, 29, ""},
    {DType::kIQ2XXS, "IQ2_XXS", 256, 66, 16, ""},
    {DType::kIQ2XS, "IQ2_XS", 256, 74, 17, ""},
    {DType::kIQ2S, "IQ2_S", 256, 82, 22, ""},
    {DType::kIQ3XXS, "IQ3_XXS", 256, 98, 18, ""},
    {DType::kIQ3S, "IQ3_S", 256, 110, 21, ""},
    {DType::kIQ4NL, "IQ4_NL", 32, 18, 20, ""},
    {DType::kIQ4XS, "IQ4_XS", 256, 136, 23, ""},
    {DType::kTQ1_0, "TQ1_0", 256, 54, 34, ""},
    {DType::kTQ2_0, "TQ2_0", 256, 66, 35, ""},
    {DType::kMXFP4, "MXFP4", 32, 17, 39, ""},
    {DType::kNVFP4, "NVFP4", 64, 36, 40, ""},
});

constexpr bool rows_stand_at_their_enumerator() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  }
  return kTable.back().dtype == DType::kNVFP4;
}
static_assert(rows_stand_at_their_enumerator());

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (upper(a[i]) != upper(b[i])) return false;
  }
  return true;
}

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  QUERN_CHECK(index < kTable.size());
  return kTable[index];
}

std::optional<DType> dtype_from_gguf(uint32_t gguf_id) {
  for (const DTypeInfo& info : kTable) {
    if (info.gguf_id >= 0 && static_cast<uint32_t>(info.gguf_id) == gguf_id) return info.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const DTypeInfo& info : kTable) {
    if (!info.safetensors.empty() && info.safetensors == name) return info.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : kTable) {
    if (equal_ignoring_case(info.name, name)) return info.dtype;
  }
  return std::nullopt;
}

std::optional<uint64_t> dtype_bytes(DType dtype, uint64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  const auto block_elements = static_cast<uint64_t>(info.block_elements);
  const auto block_bytes = static_cast<uint64_t>(info.block_bytes);
  QUERN_CHECK(elements % block_elements == 0);
  const uint64_t blocks = elements / block_elements;
  if (blocks > std::numeric_limits<uint64_t>::max() / block_bytes) return std::nullopt;
  return blocks * block_bytes;
}

}  // namespace quern
