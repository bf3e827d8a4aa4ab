#include "kernels/cpu/parallel_rows.h"
#include "kernels/cpu/row_ops.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/float_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace quern::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE void rotate(D d, V& a, V& b, const float* cosine, const float* sine) {
  const V c = hn::LoadU(d, cosine), s = hn::LoadU(d, sine);
  const V rotated = hn::MulSub(a, c, hn::Mul(b, s));
  b = hn::MulAdd(b, c, hn::Mul(a, s));
  a = rotated;
}

template <class D>
HWY_INLINE void rotate_halves(D d, float* first, float* second, const float* cosine, const float* sine) {
  auto a = hn::LoadU(d, first), b = hn::LoadU(d, second);
  rotate(d, a, b, cosine, sine);
  hn::StoreU(a, d, first);
  hn::StoreU(b, d, second);
}

void rotate_head(float* head, RopeStyle style, const float* cosine, const float* sine, int64_t half) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (style == RopeStyle::kHalves) {
    for (; i + lanes <= half; i += lanes) rotate_halves(d, head + i, head + half + i, cosine + i, sine + i);
    for (; i < half; ++i) rotate_halves(d1, head + i, head + half + i, cosine + i, sine + i);
    return;
  }
  for (; i + lanes <= half; i += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, head + 2 * i, a, b);
    rotate(d, a, b, cosine + i, sine + i);
    hn::StoreInterleaved2(a, b, d, head + 2 * i);
  }
  for (; i < half; ++i) rotate_halves(d1, head + 2 * i, head + 2 * i + 1, cosine + i, sine + i);
}

void rope_rows(Mat x, const Device::RopeSpec& spec, Mat cosine, Mat sine, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t c = 0; c < x.cols; c += spec.head_dim) {
      rotate_head(x.row(t) + c + spec.offset, spec.style, cosine.row(t), sine.row(t), cosine.cols);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(rope_rows);

void rope(ThreadPool& pool, Mat x, const Device::RopeSpec& spec, Mat cosine, Mat sine) {
  parallel_rows(pool, x.rows, x.cols, 2, [&](int64_t begin, int64_t end, int32_t) {
    HWY_DYNAMIC_DISPATCH(rope_rows)(x, spec, cosine, sine, begin, end);
  });
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
