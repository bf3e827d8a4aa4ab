// Integer dot products of groups of four, the one place where instruction sets differ by more than their width.
//
// A Codes holds four codes for each of N rows (one 32-bit lane per row), an Acts the same four activations for every
// lane. With V32 the int32 vector of N lanes:
//   load_codes(p)             4 N bytes at p
//   broadcast_acts(p)         4 activations in [-128, 127]
//   Dot<kBits>                products of codes of kBits bits: unsigned for 4, 5, 6; for 8 signed, or unsigned with
//                             kSignedZero taken off by the caller
//     kPartialGroups          groups whose products one Partial holds without overflow; 0: add() works on V32 itself
//     first(w, a), add(partial, w, a), sum(partial) -> V32
//   multiply_only(w, a)       the multiplying instruction alone, for measuring what the machine can do
// Every product and sum is exact, so all targets agree on them.
#if defined(QUERN_KERNELS_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_DOT_INL_H_
#undef QUERN_KERNELS_CPU_DOT_INL_H_
#else
#define QUERN_KERNELS_CPU_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#if HWY_TARGET == HWY_AVX3_DL
// Highway 1.0.3 detects AVX512_VNNI for this target but enables AVX_VNNI, its 256-bit cousin, in the compiler.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg,avx512vpopcntdq,avx512vnni"
#endif

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;

#if HWY_TARGET == HWY_SCALAR

struct Codes {
  uint8_t raw[4];
};
struct Acts {
  int8_t raw[4];
};
HWY_INLINE Codes load_codes(const uint8_t* p) {
  Codes w;
  std::memcpy(w.raw, p, 4);
  return w;
}
HWY_INLINE Acts broadcast_acts(const int8_t* p) {
  Acts a;
  std::memcpy(a.raw, p, 4);
  return a;
}

constexpr int32_t kSignedZero = 0;
template <int kBits>
struct Dot {
  static constexpr int kPartialGroups = 0;
  static HWY_INLINE V32 add(V32 total, Codes w, Acts a) {
    int32_t sum = total.raw;
    for (int i = 0; i < 4; ++i) sum += (kBits == 8 ? static_cast<int8_t>(w.raw[i]) : w.raw[i]) * a.raw[i];
    return V32(sum);
  }
};

HWY_INLINE V32 multiply_only(Codes w, Acts a) {
  return Dot<4>::add(V32(0), w, a);
}

#else  // vectors

using DU8 = hn::Repartition<uint8_t, D32>;
using DI8 = hn::Repartition<int8_t, D32>;
using DI16 = hn::Repartition<int16_t, D32>;
using Codes = hn::Vec<DU8>;
using Acts = hn::Vec<DI8>;
using V16 = hn::Vec<DI16>;

HWY_INLINE Codes load_codes(const uint8_t* p) {
  return hn::LoadU(DU8(), p);
}
HWY_INLINE Acts broadcast_acts(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return hn::BitCast(DI8(), hn::Set(D32(), four));
}

#if HWY_TARGET == HWY_AVX3_DL

// VNNI: unsigned times signed, four products added to the lane, no saturation.
constexpr int32_t kSignedZero = 128;
template <int kBits>
struct Dot {
  static constexpr int kPartialGroups = 0;
  static HWY_INLINE V32 add(V32 total, Codes w, Acts a) {
    // Spelled out: GCC 12 copies the sums of the intrinsic from register to register, and spills some.
    asm("vpdpbusd %2, %1, %0" : "+v"(total.raw) : "v"(w.raw), "v"(a.raw));
    return total;
  }
};

HWY_INLINE V32 multiply_only(Codes w, Acts a) {
  return Dot<4>::add(hn::Zero(D32()), w, a);
}

#elif HWY_ARCH_X86

// pmaddubsw: pairs of products as int16. Codes of 4 bits: 15 * 128 * 2 * 8 = 30720 < 32768, a whole block; of 5 bits
// 31744 after four groups, of 6 bits 32256 after two; magnitudes of 8 bits leave no room: 128 * 127 * 2 = 32512.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE V16 multiply_pairs(Codes w, Acts a) {
  return V16{_mm512_maddubs_epi16(w.raw, a.raw)};
}
HWY_INLINE V32 add_pairs(V16 v) {
  return V32{_mm512_madd_epi16(v.raw, _mm512_set1_epi16(1))};
}
HWY_INLINE Codes magnitude(Codes w) {
  return Codes{_mm512_abs_epi8(w.raw)};
}
HWY_INLINE Acts copy_sign(Codes w, Acts a) {
  return Acts{_mm512_mask_sub_epi8(a.raw, _mm512_movepi8_mask(w.raw), _mm512_setzero_si512(), a.raw)};
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE V16 multiply_pairs(Codes w, Acts a) {
  return V16{_mm256_maddubs_epi16(w.raw, a.raw)};
}
HWY_INLINE V32 add_pairs(V16 v) {
  return V32{_mm256_madd_epi16(v.raw, _mm256_set1_epi16(1))};
}
HWY_INLINE Codes magnitude(Codes w) {
  return Codes{_mm256_abs_epi8(w.raw)};
}
HWY_INLINE Acts copy_sign(Codes w, Acts a) {
  return Acts{_mm256_sign_epi8(a.raw, w.raw)};
}
#else
HWY_INLINE V16 multiply_pairs(Codes w, Acts a) {
  return V16{_mm_maddubs_epi16(w.raw, a.raw)};
}
HWY_INLINE V32 add_pairs(V16 v) {
  return V32{_mm_madd_epi16(v.raw, _mm_set1_epi16(1))};
}
HWY_INLINE Codes magnitude(Codes w) {
  return Codes{_mm_abs_epi8(w.raw)};
}
HWY_INLINE Acts copy_sign(Codes w, Acts a) {
  return Acts{_mm_sign_epi8(a.raw, w.raw)};
}
#endif

// A sum that the compiler must have here: left alone, GCC rearranges chains of additions into trees whose many products
// at once spill all registers (60 against 120 GMAC/s on Zen 3).
template <class V>
HWY_INLINE V keep(V sum) {
  asm("" : "+v"(sum.raw));
  return sum;
}

constexpr int32_t kSignedZero = 0;
template <int kBits>
struct Dot {
  using Partial = V16;
  static constexpr int kPartialGroups = kBits <= 4 ? 8 : kBits == 5 ? 4 : 2;
  static HWY_INLINE Partial first(Codes w, Acts a) { return multiply_pairs(w, a); }
  static HWY_INLINE Partial add(Partial p, Codes w, Acts a) { return keep(hn::Add(p, multiply_pairs(w, a))); }
  static HWY_INLINE V32 sum(Partial p) { return add_pairs(p); }
};
template <>
struct Dot<8> {
  static constexpr int kPartialGroups = 0;
  static HWY_INLINE V32 add(V32 total, Codes w, Acts a) {
    return keep(hn::Add(total, add_pairs(multiply_pairs(magnitude(w), copy_sign(w, a)))));
  }
};

HWY_INLINE V16 multiply_only(Codes w, Acts a) {
  return multiply_pairs(w, a);
}

#elif HWY_TARGET == HWY_NEON

// Single products as int16, rows 0 and 1 in `low`, 2 and 3 in `high`: 31 * 128 * 8 = 31744 holds a block of 5 bits.
struct Products {
  int16x8_t low, high;
};
HWY_INLINE V32 add_pairs(Products p) {
  return V32(vpaddq_s32(vpaddlq_s16(p.low), vpaddlq_s16(p.high)));
}

constexpr int32_t kSignedZero = 0;
template <int kBits>
struct Dot {
  using Partial = Products;
  static constexpr int kPartialGroups = kBits <= 5 ? 8 : 4;
  static HWY_INLINE Partial first(Codes w, Acts a) {
    const int8x16_t s = vreinterpretq_s8_u8(w.raw);
    return {vmull_s8(vget_low_s8(s), vget_low_s8(a.raw)), vmull_s8(vget_high_s8(s), vget_high_s8(a.raw))};
  }
  static HWY_INLINE Partial add(Partial p, Codes w, Acts a) {
    const int8x16_t s = vreinterpretq_s8_u8(w.raw);
    return {vmlal_s8(p.low, vget_low_s8(s), vget_low_s8(a.raw)),
            vmlal_s8(p.high, vget_high_s8(s), vget_high_s8(a.raw))};
  }
  static HWY_INLINE V32 sum(Partial p) { return add_pairs(p); }
};
template <>
struct Dot<8> {
  static constexpr int kPartialGroups = 0;
  static HWY_INLINE V32 add(V32 total, Codes w, Acts a) { return hn::Add(total, Dot<6>::sum(Dot<6>::first(w, a))); }
};

HWY_INLINE V16 multiply_only(Codes w, Acts a) {
  const Products p = Dot<4>::first(w, a);
  return V16(vaddq_s16(p.low, p.high));
}

#else
#error "no integer dot product for this target"
#endif
#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
