#include "quant/quantizer.h"

#include "tensor/block_codec.h"

// As sample/softmax.cc: wider registers than AVX2's gain nothing on blocks of 32.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/quantizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 8>;
using V = hn::Vec<D>;
constexpr int64_t kBlock = 32;

HWY_INLINE int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(D()));
}

// Codes of a block, from one vector of numbers at a time.
template <class Code>
HWY_INLINE void make_codes(const float* HWY_RESTRICT source, int32_t* HWY_RESTRICT codes, const Code& code) {
  const D d;
  const hn::RebindToSigned<D> di;
  for (int64_t i = 0; i < kBlock; i += lanes()) {
    hn::StoreU(hn::ConvertTo(di, code(hn::LoadU(d, source + i))), di, codes + i);
  }
}

HWY_INLINE void store_nibbles(const int32_t* HWY_RESTRICT codes, uint8_t* HWY_RESTRICT target) {
  for (int64_t i = 0; i < kBlock / 2; ++i) target[i] = static_cast<uint8_t>(codes[i] | (codes[i + 16] << 4));
}

struct Extent {
  float min, max, magnitude;
};
HWY_INLINE Extent extent_of(const float* HWY_RESTRICT source) {
  const D d;
  V min = hn::LoadU(d, source), max = min, magnitude = hn::Abs(min);
  for (int64_t i = lanes(); i < kBlock; i += lanes()) {
    const V v = hn::LoadU(d, source + i);
    min = hn::Min(min, v);
    max = hn::Max(max, v);
    magnitude = hn::Max(magnitude, hn::Abs(v));
  }
  return {hn::GetLane(hn::MinOfLanes(d, min)), hn::GetLane(hn::MaxOfLanes(d, max)),
          hn::GetLane(hn::MaxOfLanes(d, magnitude))};
}

// The first number of a block that `wanted` is equal to: zeros have two signs, and a peak may be met with both.
template <class Matches>
HWY_INLINE float first_of(const float* HWY_RESTRICT source, const Matches& matches) {
  for (int64_t i = 0; i < kBlock; ++i) {
    if (matches(source[i])) return source[i];
  }
  return 0;
}

bool round_q8_0(const float* HWY_RESTRICT source, uint8_t* HWY_RESTRICT block) {
  const D d;
  const float scale = extent_of(source).magnitude / 127;
  if (!blocks::store_scale(scale, block)) return false;
  const V inverse = hn::Set(d, blocks::inverse_scale(scale));
  const V top = hn::Set(d, 127.0f);
  int32_t codes[kBlock];
  make_codes(source, codes, [&](V v) {
    // Halves away from zero, as std::round: adding a half before truncation would lift 0.49999997 to 1.
    const V scaled = hn::Mul(v, inverse);
    const V magnitude = hn::Abs(scaled);
    const V whole = hn::Trunc(magnitude);
    const V up = hn::IfThenElseZero(hn::Ge(hn::Sub(magnitude, whole), hn::Set(d, 0.5f)), hn::Set(d, 1.0f));
    return hn::CopySign(hn::Min(hn::Add(whole, up), top), scaled);
  });
  for (int64_t i = 0; i < kBlock; ++i) block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(codes[i]));
  return true;
}

bool round_q4_0(const float* HWY_RESTRICT source, uint8_t* HWY_RESTRICT block) {
  const D d;
  const float magnitude = extent_of(source).magnitude;
  const float peak =
      magnitude == 0 ? 0.0f : first_of(source, [magnitude](float v) { return std::fabs(v) == magnitude; });
  const float scale = peak / -8;
  if (!blocks::store_scale(scale, block)) return false;
  const V inverse = hn::Set(d, blocks::inverse_scale(scale));
  const V eight = hn::Set(d, 8.0f), half = hn::Set(d, 0.5f), top = hn::Set(d, 15.0f);
  int32_t codes[kBlock];
  make_codes(source, codes, [&](V v) { return hn::Min(hn::Add(hn::Add(hn::Mul(v, inverse), eight), half), top); });
  store_nibbles(codes, block + 2);
  return true;
}

bool round_q4_1(const float* HWY_RESTRICT source, uint8_t* HWY_RESTRICT block) {
  const D d;
  const Extent extent = extent_of(source);
  if (extent.min == extent.max) return blocks::quantize_q4_1(source, block);  // signs of zeros: rare
  const float min = extent.min != 0 ? extent.min : first_of(source, [](float v) { return v == 0; });
  const float scale = (extent.max - min) / 15;
  if (!blocks::store_scale(scale, block) || !blocks::store_scale(min, block + 2)) return false;
  const V inverse = hn::Set(d, blocks::inverse_scale(scale));
  const V base = hn::Set(d, min), half = hn::Set(d, 0.5f), top = hn::Set(d, 15.0f);
  int32_t codes[kBlock];
  make_codes(source, codes, [&](V v) { return hn::Min(hn::Add(hn::Mul(hn::Sub(v, base), inverse), half), top); });
  store_nibbles(codes, block + 4);
  return true;
}

bool all_finite(const float* HWY_RESTRICT source, int64_t count) {
  const D d;
  const V top = hn::Set(d, std::numeric_limits<float>::max());
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) {
    if (!hn::AllTrue(d, hn::Le(hn::Abs(hn::LoadU(d, source + i)), top))) return false;
  }
  for (; i < count; ++i) {
    if (!std::isfinite(source[i])) return false;
  }
  return true;
}

// Blocks rounded before one that does not fit; all of them otherwise.
int64_t round_blocks(DType to, const float* source, int64_t count, uint8_t* target) {
  const auto each = [&](auto round, int64_t bytes) {
    for (int64_t i = 0; i < count; ++i) {
      if (!round(source + i * kBlock, target + i * bytes)) return i;
    }
    return count;
  };
  if (to == DType::kQ8_0) return each(round_q8_0, 34);
  return to == DType::kQ4_0 ? each(round_q4_0, 18) : each(round_q4_1, 20);
}

void widen_bf16(const uint16_t* HWY_RESTRICT source, int64_t count, float* HWY_RESTRICT target) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) {
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, source + i)));
    hn::StoreU(hn::BitCast(d, wide), d, target + i);
  }
  for (; i < count; ++i) target[i] = bf16_to_f32(source[i]);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace quern {
namespace {

HWY_EXPORT(all_finite);
HWY_EXPORT(round_blocks);
HWY_EXPORT(widen_bf16);

void to_floats(DType from, const std::byte* source, int64_t cols, float* target) {
  // Rows of a mapped file may begin at any byte.
  if (from == DType::kBF16 && reinterpret_cast<uintptr_t>(source) % alignof(uint16_t) == 0) {
    HWY_DYNAMIC_DISPATCH(widen_bf16)(reinterpret_cast<const uint16_t*>(source), cols, target);
  } else {
    dequantize(from, source, target, cols);
  }
}

}  // namespace

bool is_rounding_target(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_1;
}

bool is_rounding_source(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF64:
    case DType::kF8E4M3:
    case DType::kF8E5M2: return true;
    default: return false;
  }
}

Status round_row(DType from, const std::byte* source, DType to, int64_t cols, float* scratch, std::byte* target) {
  QUERN_CHECK(is_rounding_source(from) && is_rounding_target(to));
  to_floats(from, source, cols, scratch);
  if (to == DType::kF16) return quantize(to, scratch, target, cols);
  const DTypeInfo& info = dtype_info(to);
  QUERN_CHECK(info.block_elements == 32 && cols % 32 == 0);
  // The plain quantiser finds the words for what is wrong.
  if (!HWY_DYNAMIC_DISPATCH(all_finite)(scratch, cols)) return quantize(to, scratch, target, cols);
  const int64_t done = HWY_DYNAMIC_DISPATCH(round_blocks)(to, scratch, cols / 32, reinterpret_cast<uint8_t*>(target));
  return done == cols / 32 ? Status() : quantize(to, scratch, target, cols);
}

}  // namespace quern
#endif  // HWY_ONCE
