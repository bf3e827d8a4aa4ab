#include "tensor/dequantize.h"

#include <cstring>

#include "base/check.h"
#include "tensor/block_codec.h"

namespace quern {
namespace {

using BlockDecoder = void (*)(const uint8_t* block, float* target);

// nullptr for plain types.
BlockDecoder block_decoder(DType dtype) {
  switch (dtype) {
    case DType::kQ1_0: return blocks::dequantize_q1_0;
    case DType::kQ2_0: return blocks::dequantize_q2_0;
    case DType::kQ4_0: return blocks::dequantize_q4_0;
    case DType::kQ4_1: return blocks::dequantize_q4_1;
    case DType::kQ5_0: return blocks::dequantize_q5_0;
    case DType::kQ5_1: return blocks::dequantize_q5_1;
    case DType::kQ8_0: return blocks::dequantize_q8_0;
    case DType::kQ2K: return blocks::dequantize_q2_k;
    case DType::kQ3K: return blocks::dequantize_q3_k;
    case DType::kQ4K: return blocks::dequantize_q4_k;
    case DType::kQ5K: return blocks::dequantize_q5_k;
    case DType::kQ6K: return blocks::dequantize_q6_k;
    case DType::kIQ1S: return blocks::dequantize_iq1_s;
    case DType::kIQ1M: return blocks::dequantize_iq1_m;
    case DType::kIQ2XXS: return blocks::dequantize_iq2_xxs;
    case DType::kIQ2XS: return blocks::dequantize_iq2_xs;
    case DType::kIQ2S: return blocks::dequantize_iq2_s;
    case DType::kIQ3XXS: return blocks::dequantize_iq3_xxs;
    case DType::kIQ3S: return blocks::dequantize_iq3_s;
    case DType::kIQ4NL: return blocks::dequantize_iq4_nl;
    case DType::kIQ4XS: return blocks::dequantize_iq4_xs;
    case DType::kTQ1_0: return blocks::dequantize_tq1_0;
    case DType::kTQ2_0: return blocks::dequantize_tq2_0;
    case DType::kMXFP4: return blocks::dequantize_mxfp4;
    case DType::kNVFP4: return blocks::dequantize_nvfp4;
    default: return nullptr;
  }
}

// Elements of type Stored, through `convert`.
template <class Stored, class Convert>
void convert_plain(const std::byte* source, float* target, int64_t elements, Convert convert) {
  for (int64_t i = 0; i < elements; ++i) {
    Stored value;
    std::memcpy(&value, source + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    target[i] = convert(value);
  }
}

template <class Stored>
void convert_by_value(const std::byte* source, float* target, int64_t elements) {
  convert_plain<Stored>(source, target, elements, [](Stored value) { return static_cast<float>(value); });
}

void dequantize_plain(DType dtype, const std::byte* source, float* target, int64_t elements) {
  switch (dtype) {
    case DType::kF32: return convert_by_value<float>(source, target, elements);
    case DType::kF16: return convert_plain<uint16_t>(source, target, elements, f16_to_f32);
    case DType::kBF16: return convert_plain<uint16_t>(source, target, elements, bf16_to_f32);
    case DType::kF64: return convert_by_value<double>(source, target, elements);
    case DType::kF8E4M3: return convert_plain<uint8_t>(source, target, elements, f8e4m3_to_f32);
    case DType::kF8E5M2: return convert_plain<uint8_t>(source, target, elements, f8e5m2_to_f32);
    case DType::kI8: return convert_by_value<int8_t>(source, target, elements);
    case DType::kI16: return convert_by_value<int16_t>(source, target, elements);
    case DType::kI32: return convert_by_value<int32_t>(source, target, elements);
    case DType::kI64: return convert_by_value<int64_t>(source, target, elements);
    case DType::kU8: return convert_by_value<uint8_t>(source, target, elements);
    case DType::kU16: return convert_by_value<uint16_t>(source, target, elements);
    case DType::kU32: return convert_by_value<uint32_t>(source, target, elements);
    case DType::kU64: return convert_by_value<uint64_t>(source, target, elements);
    case DType::kBool:
      return convert_plain<uint8_t>(source, target, elements, [](uint8_t value) { return value != 0 ? 1.0f : 0.0f; });
    default: check_failed("a type with blocks has a block decoder", __FILE__, __LINE__);
  }
}

}  // namespace

void dequantize(DType dtype, const std::byte* source, float* target, int64_t elements) {
  const BlockDecoder decode = block_decoder(dtype);
  if (decode == nullptr) return dequantize_plain(dtype, source, target, elements);
  const DTypeInfo& info = dtype_info(dtype);
  QUERN_DCHECK(elements % info.block_elements == 0);
  const auto* block = reinterpret_cast<const uint8_t*>(source);
  for (int64_t i = 0; i < elements; i += info.block_elements, block += info.block_bytes) decode(block, target + i);
}

}  // namespace quern
