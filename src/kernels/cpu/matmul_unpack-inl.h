// Packed weights (pack_layout.h) to codes and scales that are ready to multiply, a block of a panel at a time.
#if defined(QUERN_KERNELS_CPU_MATMUL_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_MATMUL_UNPACK_INL_H_
#undef QUERN_KERNELS_CPU_MATMUL_UNPACK_INL_H_
#else
#define QUERN_KERNELS_CPU_MATMUL_UNPACK_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/matmul_acts-inl.h"
#include "kernels/cpu/pack_layout.h"

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What a product asks of unpacked blocks: bits of the codes in the classes of Dot, zero point, scales per block,
// minima. Types that agree in these share the code of products.
template <int kBitsOf, int32_t kZeroOf, int kHalvesOf, bool kHasMinOf>
struct ProductKind {
  static constexpr int kBits = kBitsOf;
  static constexpr int32_t kZero = kZeroOf;
  static constexpr int kHalves = kHalvesOf;
  static constexpr bool kHasMin = kHasMinOf;
};

constexpr bool is_signed(CodeMeaning meaning) {
  return meaning == CodeMeaning::kIq4 || meaning == CodeMeaning::kSignedByte;
}

constexpr int code_bits(const PackedLayout& layout) {
  if (is_signed(layout.meaning)) return 8;
  if (layout.meaning == CodeMeaning::kE2M1) return 5;
  return HWY_MAX(4, layout.low_bits + layout.high_bits);
}

template <DType kDType>
struct WeightKind {
  static constexpr PackedLayout kLayout = packed_layout(kDType);
  static constexpr bool kIsSigned = is_signed(kLayout.meaning);
  using Product = ProductKind<code_bits(kLayout), kIsSigned ? kSignedZero : kLayout.zero, kLayout.half_blocks() ? 2 : 1,
                              kLayout.has_min()>;
};

constexpr int log2_of(int32_t power) {
  return power <= 1 ? 0 : 1 + log2_of(power / 2);
}

// One block of a panel, ready to multiply.
struct PanelBlock {
  alignas(64) uint8_t codes[kGroups * 64];  // [group][row][4]
  alignas(64) float scale[2][kPanelRows];   // [half][row]
  alignas(64) float min[2][kPanelRows];
};

#if HWY_TARGET == HWY_SCALAR
using DBytes = hn::ScalableTag<uint8_t>;
#else
using DBytes = DU8;
#endif
using VBytes = hn::Vec<DBytes>;
constexpr int64_t kByteLanes = HWY_LANES(uint8_t);

// Shifts to the left where kShift > 0. Bits may come in from the neighbouring byte: the caller masks them.
template <int kShift>
HWY_INLINE VBytes shift_unclean(VBytes v) {
  const DBytes d;
#if HWY_TARGET == HWY_SCALAR
  const DBytes wide;
#else
  const hn::Repartition<uint16_t, DBytes> wide;
#endif
  if constexpr (kShift > 0) return hn::BitCast(d, hn::ShiftLeft<kShift>(hn::BitCast(wide, v)));
  if constexpr (kShift < 0) return hn::BitCast(d, hn::ShiftRight<-kShift>(hn::BitCast(wide, v)));
  return v;
}

HWY_INLINE VBytes look_up(const uint8_t* table, VBytes index) {
#if HWY_TARGET == HWY_SCALAR
  return VBytes(table[index.raw]);
#else
  return hn::TableLookupBytes(hn::LoadDup128(DU8(), table), index);
#endif
}

template <class K, int kGroup>
HWY_INLINE VBytes unpack_group(const uint8_t* HWY_RESTRICT low) {
  constexpr PackedLayout kLayout = K::kLayout;
  const DBytes d;
  VBytes v = hn::LoadU(d, low + 64 * plane_run(kLayout.low_bits, kGroup));
  if constexpr (kLayout.low_bits < 8) {
    constexpr auto kMask = static_cast<uint8_t>((1 << kLayout.low_bits) - 1);
    v = hn::And(shift_unclean<-plane_shift(kLayout.low_bits, kGroup)>(v), hn::Set(d, kMask));
  }
  if constexpr (kLayout.high_bits > 0) {
    constexpr auto kMask = static_cast<uint8_t>(((1 << kLayout.high_bits) - 1) << kLayout.low_bits);
    const VBytes high = hn::LoadU(d, low + 64 * (kLayout.low_bits + plane_run(kLayout.high_bits, kGroup)));
    constexpr int kShift = kLayout.low_bits - plane_shift(kLayout.high_bits, kGroup);
    v = hn::Or(v, hn::And(shift_unclean<kShift>(high), hn::Set(d, kMask)));
  }
  if constexpr (kLayout.meaning == CodeMeaning::kSign) v = hn::Add(v, v);
  if constexpr (kLayout.meaning == CodeMeaning::kE2M1) v = look_up(kE2M1Codes, v);
  if constexpr (kLayout.meaning == CodeMeaning::kIq4) v = look_up(reinterpret_cast<const uint8_t*>(kIq4Codes), v);
  if constexpr (K::kIsSigned && kSignedZero != 0) v = hn::Xor(v, hn::Set(d, uint8_t{0x80}));
  return v;
}

// Codes less kTaken, modulo 256.
template <class K, int32_t kTaken = 0>
HWY_INLINE void unpack_codes(const uint8_t* HWY_RESTRICT low, uint8_t* HWY_RESTRICT codes) {
  const DBytes d;
  const VBytes taken = hn::Set(d, static_cast<uint8_t>(kTaken));
  for (int64_t i = 0; i < 64; i += kByteLanes) {
    hn::Store(hn::Sub(unpack_group<K, 0>(low + i), taken), d, codes + i);
    hn::Store(hn::Sub(unpack_group<K, 1>(low + i), taken), d, codes + 64 + i);
    hn::Store(hn::Sub(unpack_group<K, 2>(low + i), taken), d, codes + 128 + i);
    hn::Store(hn::Sub(unpack_group<K, 3>(low + i), taken), d, codes + 192 + i);
    hn::Store(hn::Sub(unpack_group<K, 4>(low + i), taken), d, codes + 256 + i);
    hn::Store(hn::Sub(unpack_group<K, 5>(low + i), taken), d, codes + 320 + i);
    hn::Store(hn::Sub(unpack_group<K, 6>(low + i), taken), d, codes + 384 + i);
    hn::Store(hn::Sub(unpack_group<K, 7>(low + i), taken), d, codes + 448 + i);
  }
}

HWY_INLINE VF load_half_floats(const std::byte* p) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  const hn::Rebind<uint16_t, DF> du;
  return hn::PromoteTo(DF(), hn::BitCast(dh, hn::LoadU(du, reinterpret_cast<const uint16_t*>(p))));
}

HWY_INLINE V32 load_bytes(const std::byte* p) {
  const hn::Rebind<uint8_t, D32> d8;
  return hn::PromoteTo(D32(), hn::LoadU(d8, reinterpret_cast<const uint8_t*>(p)));
}

HWY_INLINE VF e8m0_floats(V32 e) {
  const D32 d;
  const V32 one = hn::Set(d, 1);
  const V32 normal = hn::ShiftLeft<23>(hn::Sub(e, one));
  const V32 subnormal = hn::IfThenElse(hn::Eq(e, one), hn::Set(d, 0x00400000), hn::Set(d, 0x00200000));
  return hn::BitCast(DF(), hn::IfThenElse(hn::Gt(e, one), normal, subnormal));
}

HWY_INLINE VF ue4m3_floats(V32 e) {
  const D32 d;
  const V32 bits = hn::ShiftLeft<20>(hn::And(e, hn::Set(d, 0x7f)));
  const V32 kept = hn::IfThenElse(hn::Eq(e, hn::Set(d, 0x7f)), hn::Zero(d), bits);
  return hn::Mul(hn::BitCast(DF(), kept), hn::Set(DF(), 0x1p119f));  // moves the exponent's bias from 127 to 8
}

// Scales and minima [half][row] of 16 rows for one block; products in the order of the formats' definitions.
template <class K>
HWY_INLINE void unpack_scales(const std::byte* record, const std::byte* block, float* HWY_RESTRICT scales,
                              float* HWY_RESTRICT mins) {
  constexpr PackedLayout kLayout = K::kLayout;
  const DF df;
  const D32 di;
  for (int64_t i = 0; i < kPanelRows; i += kLanes) {
    VF d = hn::Zero(df);
    VF dmin = hn::Zero(df);
    if constexpr (kLayout.row_scales > 0) d = load_half_floats(record + 2 * i);
    if constexpr (kLayout.row_scales > 1) dmin = load_half_floats(record + 2 * kPanelRows + 2 * i);
    for (int32_t half = 0; half < K::Product::kHalves; ++half) {
      VF scale = d;
      VF min = dmin;
      const std::byte* sub = block + kPanelRows * half + i;
      if constexpr (kLayout.sub_scale == SubScale::kUnsigned) {
        scale = hn::Mul(d, hn::ConvertTo(df, load_bytes(sub)));
        min = hn::Neg(hn::Mul(dmin, hn::ConvertTo(df, load_bytes(sub + kPanelRows * kLayout.num_sub_scales))));
      } else if constexpr (kLayout.sub_scale == SubScale::kSigned) {
        scale = hn::Mul(d, hn::ConvertTo(df, hn::ShiftRight<24>(hn::ShiftLeft<24>(load_bytes(sub)))));
      } else if constexpr (kLayout.sub_scale == SubScale::kNibbles) {
        const V32 both = load_bytes(sub);
        scale = hn::Mul(d, hn::ConvertTo(df, hn::And(both, hn::Set(di, 15))));
        min = hn::Neg(hn::Mul(dmin, hn::ConvertTo(df, hn::ShiftRight<4>(both))));
      } else if constexpr (kLayout.sub_scale == SubScale::kE8M0) {
        scale = e8m0_floats(load_bytes(sub));
      } else if constexpr (kLayout.sub_scale == SubScale::kUE4M3) {
        scale = ue4m3_floats(load_bytes(sub));
      }
      hn::Store(scale, df, scales + kPanelRows * half + i);
      if constexpr (K::Product::kHasMin) hn::Store(min, df, mins + kPanelRows * half + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
