#include "kernels/cpu/kv_write.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/float_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_write.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstring>

#include "tensor/dequantize.h"

HWY_BEFORE_NAMESPACE();
namespace quern::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPiece = 32;  // elements converted at a time; also what shares a scale
static_assert(kPiece == kKvScaleGroup);
constexpr float kF16Max = 65504.0f;

// Pieces are padded with zeros to kPiece, so the conversions need no tails.
using D = hn::CappedTag<float, 16>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

void to_f16(const float* source, uint16_t* target) {
  const D d;
// Highway's emulation of the conversion rounds differently; these targets have an instruction.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
  const hn::Rebind<hwy::float16_t, D> dh;
  const hn::Rebind<uint16_t, D> du;
  for (int64_t i = 0; i < kPiece; i += kLanes) {
    const auto clamped = hn::Min(hn::Set(d, kF16Max), hn::Max(hn::Set(d, -kF16Max), hn::LoadU(d, source + i)));
    hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, clamped)), du, target + i);
  }
#else
  (void)d;
  for (int64_t i = 0; i < kPiece; ++i) target[i] = f32_to_f16(std::clamp(source[i], -kF16Max, kF16Max));
#endif
}

// Round to nearest even on the bits; a NaN keeps a set mantissa bit.
void to_bf16(const float* source, uint16_t* target) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  for (int64_t i = 0; i < kPiece; i += kLanes) {
    const auto value = hn::LoadU(d, source + i);
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
    const auto kept = hn::IfThenElse(is_nan, hn::Or(bits, hn::Set(du, 0x400000)), rounded);
    // Below 2^16 after the shift: the saturation of DemoteTo from signed to unsigned has nothing to do.
    const hn::RebindToSigned<D> di;
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, hn::ShiftRight<16>(kept))), dh, target + i);
  }
}

// Returns the float16 bits of the scale.
uint16_t to_q8_0(const float* source, int8_t* target) {
  const D d;
  auto max = hn::Zero(d);
  for (int64_t i = 0; i < kPiece; i += kLanes) max = hn::Max(max, hn::Abs(hn::LoadU(d, source + i)));
  const uint16_t scale = f32_to_f16(std::min(hn::GetLane(hn::MaxOfLanes(d, max)) / 127.0f, kF16Max));
  const float exact_scale = f16_to_f32(scale);
  const auto inverse = hn::Set(d, exact_scale > 0 ? 1.0f / exact_scale : 0.0f);
  const hn::Rebind<int8_t, D> d8;
  for (int64_t i = 0; i < kPiece; i += kLanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, source + i), inverse);
    const auto clamped = hn::Min(hn::Set(d, 127.0f), hn::Max(hn::Set(d, -127.0f), scaled));
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(clamped)), d8, target + i);
  }
  return scale;
}

// Returns the float16 bits of the scale. nibbles[i]: elements i and i + 16.
uint16_t to_q4_0(const float* source, uint8_t* nibbles) {
  const D d;
  auto highs = hn::Zero(d), lows = hn::Zero(d);
  for (int64_t i = 0; i < kPiece; i += kLanes) {
    highs = hn::Max(highs, hn::LoadU(d, source + i));
    lows = hn::Min(lows, hn::LoadU(d, source + i));
  }
  const float high = hn::GetLane(hn::MaxOfLanes(d, highs)), low = hn::GetLane(hn::MinOfLanes(d, lows));
  const uint16_t scale = f32_to_f16(std::clamp((high > -low ? high : low) / -8.0f, -kF16Max, kF16Max));
  const float exact_scale = f16_to_f32(scale);
  const auto inverse = hn::Set(d, exact_scale != 0 ? 1.0f / exact_scale : 0.0f);
  const hn::Rebind<int8_t, D> d8;
  HWY_ALIGN int8_t codes[kPiece];
  for (int64_t i = 0; i < kPiece; i += kLanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, source + i), inverse);
    const auto clamped = hn::Min(hn::Set(d, 7.0f), hn::Max(hn::Set(d, -8.0f), scaled));
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(clamped)), d8, codes + i);
  }
  for (int64_t i = 0; i < kKvGroupNibbleBytes; ++i) {
    const int low_code = codes[i] + 8, high_code = codes[i + kKvGroupNibbleBytes] + 8;
    nibbles[i] = static_cast<uint8_t>((low_code & 15) | (high_code & 15) << 4);
  }
  return scale;
}

void place_nibbles(const uint8_t* nibbles, int64_t group, const KvSection& section, int64_t position, std::byte* head) {
  auto* target = reinterpret_cast<uint8_t*>(head + section.offset);
  for (int64_t i = 0; i < kKvGroupNibbleBytes; ++i) {
    const int64_t at = section.transposed ? (group * kKvGroupNibbleBytes + i) * kKvBlockSize + position
                                          : (position * section.groups + group) * kKvGroupNibbleBytes + i;
    target[at] = nibbles[i];
  }
}

void place_scale(uint16_t scale, int64_t group, const KvSection& section, int64_t position, std::byte* head) {
  const int64_t at = section.transposed ? group * kKvBlockSize + position : position * section.groups + group;
  reinterpret_cast<uint16_t*>(head + section.scales_offset)[at] = scale;
}

// A whole vector at once: its elements share a scale.
void write_i16(const float* source, const KvSection& section, int64_t position, std::byte* head) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> d16;
  const hn::CappedTag<float, 1> d1;
  const hn::RebindToSigned<decltype(d1)> di1;
  // Compared as integers, magnitudes keep their order and NaN is the largest.
  auto tops = hn::Zero(di);
  int64_t i = 0;
  for (; i + kLanes <= section.dim; i += kLanes) {
    tops = hn::Max(tops, hn::BitCast(di, hn::Abs(hn::LoadU(d, source + i))));
  }
  int32_t top = hn::GetLane(hn::MaxOfLanes(di, tops));
  for (; i < section.dim; ++i) {
    top = std::max(top, hn::GetLane(hn::BitCast(di1, hn::Abs(hn::LoadU(d1, source + i)))));
  }
  float max = 0;
  std::memcpy(&max, &top, sizeof max);
  const auto limit = static_cast<float>(kv_code_max(section.transposed ? section.dim : kKvValueTerms));
  // Below this the inverse would not be finite. Not-a-number and infinity stand in the scale alone.
  const bool is_zero = max < limit * 0x1p-126f, is_finite = max <= 3.4028234e38f;
  const float inverse = is_zero || !is_finite ? 0.0f : limit / max;
  reinterpret_cast<float*>(head + section.scales_offset)[position] = is_zero ? 0.0f : max / limit;
  auto* target = reinterpret_cast<int16_t*>(head + section.offset);
  HWY_ALIGN float padded[kPiece];
  HWY_ALIGN int16_t codes[kPiece];
  for (int64_t first = 0; first < section.dim; first += kPiece) {
    const int64_t count = HWY_MIN(kPiece, section.dim - first);
    const float* values = source + first;
    if (count < kPiece) {
      for (int64_t k = 0; k < kPiece; ++k) padded[k] = k < count ? values[k] : 0.0f;
      values = padded;
    }
    for (int64_t k = 0; k < kPiece; k += kLanes) {
      const auto code =
          is_finite ? hn::NearestInt(hn::Mul(hn::LoadU(d, values + k), hn::Set(d, inverse))) : hn::Zero(di);
      hn::StoreU(hn::DemoteTo(d16, code), d16, codes + k);
    }
    if (section.transposed) {
      for (int64_t k = 0; k < count; k += 2) {
        std::memcpy(target + (first + k) * kKvBlockSize + 2 * position, codes + k, 2 * sizeof(int16_t));
      }
    } else {
      int16_t* pair = target + (position / 2 * section.stride + first) * 2 + position % 2;
      for (int64_t k = 0; k < count; ++k) pair[2 * k] = codes[k];
    }
  }
}

template <class T>
HWY_INLINE void place(const T* piece, int64_t first, int64_t count, const KvSection& section, int64_t position,
                      std::byte* head) {
  T* target = reinterpret_cast<T*>(head + section.offset);
  if (section.transposed) {
    for (int64_t i = 0; i < count; ++i) target[(first + i) * kKvBlockSize + position] = piece[i];
  } else {
    std::memcpy(target + position * section.stride + first, piece, static_cast<size_t>(count) * sizeof(T));
  }
}

void write_vector(const float* source, const KvSection& section, int64_t position, std::byte* head) {
  if (section.dtype == KvDType::kI16) return write_i16(source, section, position, head);
  HWY_ALIGN float padded[kPiece];
  HWY_ALIGN uint16_t halves[kPiece];
  HWY_ALIGN int8_t bytes[kPiece];
  uint8_t nibbles[kKvGroupNibbleBytes];
  for (int64_t first = 0; first < section.dim; first += kPiece) {
    const int64_t count = HWY_MIN(kPiece, section.dim - first);
    const float* values = source + first;
    if (count < kPiece) {
      for (int64_t i = 0; i < kPiece; ++i) padded[i] = i < count ? values[i] : 0.0f;
      values = padded;
    }
    switch (section.dtype) {
      case KvDType::kF32: place(values, first, count, section, position, head); break;
      case KvDType::kF16:
        to_f16(values, halves);
        place(halves, first, count, section, position, head);
        break;
      case KvDType::kBF16:
        to_bf16(values, halves);
        place(halves, first, count, section, position, head);
        break;
      case KvDType::kQ8_0:
        place_scale(to_q8_0(values, bytes), first / kKvScaleGroup, section, position, head);
        place(bytes, first, count, section, position, head);
        break;
      case KvDType::kQ4_0:
        place_scale(to_q4_0(values, nibbles), first / kKvScaleGroup, section, position, head);
        place_nibbles(nibbles, first / kKvScaleGroup, section, position, head);
        break;
      case KvDType::kI16: break;  // above
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(write_vector);

void write_kv_vector(const float* source, const KvSection& section, int64_t position, std::byte* head) {
  HWY_DYNAMIC_DISPATCH(write_vector)(source, section, position, head);
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
