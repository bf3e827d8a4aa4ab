// Elementary functions on float vectors, for every target. Per-lane: a value does not depend on its neighbours nor on
// the width of the vector, so loops may end with one-lane vectors. Coefficients are minimax fits made for this file;
// errors stated are the largest seen against double over all tested arguments (vector_math_test.cc). NaN in, NaN out.
#if defined(QUERN_KERNELS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_VECTOR_MATH_INL_H_
#undef QUERN_KERNELS_CPU_VECTOR_MATH_INL_H_
#else
#define QUERN_KERNELS_CPU_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern::vector_math {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits.
constexpr float kRoundingMagic = 12582912.0f;

// value * 2^n, for n kept in the low bits of `magic_sum` = n + kRoundingMagic. value is in [0.7, 1.5] and the product
// is normal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V scale_by_power(D d, V value, V magic_sum) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, value), hn::ShiftLeft<23>(hn::BitCast(di, magic_sum))));
}

// 2^x for x <= 127.5; 0 below -126. 2 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
  const V magic = hn::Set(d, kRoundingMagic);
  const V sum = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(sum, magic));
  V p = hn::Set(d, 1.53533605e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.33988750e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.61843692e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.55033237e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240226477f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693147182f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), scale_by_power(d, p, sum));
}

// e^x; 0 below -87.33, the largest power below infinity above 88.72. 2 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  // A comparison and not a minimum, so that NaN stays. What is too low is replaced at the end.
  const V clamped = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.72283f)), hn::Set(d, 88.72283f), x);
  const V magic = hn::Set(d, kRoundingMagic);
  const V sum = hn::MulAdd(clamped, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(sum, magic);
  // ln 2 in two parts; n times the first is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  V p = hn::Set(d, 1.38145965e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.36871751e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.16683890e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665211f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(r, r), p, r);
  p = hn::Add(p, hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365f)), scale_by_power(d, p, sum));
}

// 1 / (1 + e^-x). 3 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

// 3 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Abs(x);
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(exp(d, hn::Add(a, a)), one)));
  // x + x^3 q(x^2) where 1 - 2/(e^2x + 1) would cancel.
  const V u = hn::Mul(a, a);
  V q = hn::Set(d, -5.71703678e-3f);
  q = hn::MulAdd(q, u, hn::Set(d, 2.06505787e-2f));
  q = hn::MulAdd(q, u, hn::Set(d, -5.37434965e-2f));
  q = hn::MulAdd(q, u, hn::Set(d, 0.133314908f));
  q = hn::MulAdd(q, u, hn::Set(d, -0.333332837f));
  const V small = hn::MulAdd(hn::Mul(a, u), q, a);
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), small, large), x);
}

// x * Phi(x), Phi the normal distribution function: the GELU of erf. The tail Phi(-a) = e^(-a*a/2) R(1 / (1 + 0.35 a)).
// Absolute error 5e-7 for |x| < 8, relative 3e-7 of |x| beyond.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Abs(x);
  const V t = hn::Div(one, hn::MulAdd(a, hn::Set(d, 0.35f), one));
  V p = hn::Set(d, -2.804547312e-2f);
  p = hn::MulAdd(p, t, hn::Set(d, 1.382572985e-1f));
  p = hn::MulAdd(p, t, hn::Set(d, -2.429435040e-1f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.431012049e-1f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.059545823e-2f));
  p = hn::MulAdd(p, t, hn::Set(d, 9.927768072e-2f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.218097612e-1f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.394775052e-1f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.396628583e-1f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.886864829e-6f));
  const V tail = hn::Mul(p, exp(d, hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f))));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)));
}

// x * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, written as x * sigmoid(2 u).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 2 * 0.797884561f * 0.044715f), hn::Set(d, 2 * 0.797884561f));
  return hn::Mul(x, sigmoid(d, hn::Mul(x, cubic)));
}

}  // namespace HWY_NAMESPACE
}  // namespace quern::vector_math
HWY_AFTER_NAMESPACE();

#endif  // toggle
