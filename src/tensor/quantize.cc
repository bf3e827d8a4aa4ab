#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "tensor/block_codec.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

using BlockEncoder = bool (*)(const float* source, uint8_t* block);

bool store_f32(const float* source, uint8_t* target) {
  std::memcpy(target, source, sizeof(float));
  return true;
}
bool store_bf16(const float* source, uint8_t* target) {
  const uint16_t bits = f32_to_bf16(*source);
  blocks::store_u16(bits, target);
  return (bits & 0x7fffu) < 0x7f80u;
}
bool store_f16(const float* source, uint8_t* target) {
  return blocks::store_scale(*source, target);
}

// nullptr for types that are only read.
BlockEncoder block_encoder(DType dtype) {
  switch (dtype) {
    case DType::kF32: return store_f32;
    case DType::kF16: return store_f16;
    case DType::kBF16: return store_bf16;
    case DType::kQ4_0: return blocks::quantize_q4_0;
    case DType::kQ4_1: return blocks::quantize_q4_1;
    case DType::kQ5_0: return blocks::quantize_q5_0;
    case DType::kQ5_1: return blocks::quantize_q5_1;
    case DType::kQ8_0: return blocks::quantize_q8_0;
    case DType::kQ4K: return blocks::quantize_q4_k;
    case DType::kQ5K: return blocks::quantize_q5_k;
    case DType::kQ6K: return blocks::quantize_q6_k;
    case DType::kTQ1_0: return blocks::quantize_tq1_0;
    case DType::kTQ2_0: return blocks::quantize_tq2_0;
    case DType::kMXFP4: return blocks::quantize_mxfp4;
    default: return nullptr;
  }
}

}  // namespace

Status quantize(DType dtype, const float* source, std::byte* target, int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  const BlockEncoder encode = block_encoder(dtype);
  if (encode == nullptr) return unsupported(fmt::format("writing {} is not supported", info.name));
  QUERN_DCHECK(elements % info.block_elements == 0);
  for (int64_t i = 0; i < elements; ++i) {
    if (!std::isfinite(source[i])) return invalid_argument(fmt::format("element {} is {}", i, source[i]));
  }
  auto* block = reinterpret_cast<uint8_t*>(target);
  for (int64_t i = 0; i < elements; i += info.block_elements, block += info.block_bytes) {
    if (!encode(source + i, block)) {
      return invalid_argument(
          fmt::format("elements {} to {} are over the range of {}", i, i + info.block_elements - 1, info.name));
    }
  }
  return {};
}

}  // namespace quern
