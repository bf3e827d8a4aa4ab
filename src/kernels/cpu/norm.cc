#include "kernels/cpu/parallel_rows.h"
#include "kernels/cpu/row_ops.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/float_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Σ term(x[i]): four interleaved vector sums hide the latency of one; the order depends on n only.
template <class Term>
HWY_INLINE float sum_of(const float* HWY_RESTRICT x, int64_t n, const Term& term) {
  const D d;
  const hn::CappedTag<float, 1> d1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, term(d, hn::LoadU(d, x + i)));
    s1 = hn::Add(s1, term(d, hn::LoadU(d, x + i + lanes)));
    s2 = hn::Add(s2, term(d, hn::LoadU(d, x + i + 2 * lanes)));
    s3 = hn::Add(s3, term(d, hn::LoadU(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, term(d, hn::LoadU(d, x + i)));
  auto tail = hn::Zero(d1);
  for (; i < n; ++i) tail = hn::Add(tail, term(d1, hn::LoadU(d1, x + i)));
  const V all = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  return hn::GetLane(hn::SumOfLanes(d, all)) + hn::GetLane(tail);
}

// out = (x - mean) * factor * (weight + offset) + bias
template <class DN>
HWY_INLINE void normalize_at(DN d, const float* x, float mean, float factor, const Device::NormSpec& spec,
                             int64_t first, int64_t i, float* out) {
  auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, factor));
  if (spec.weight != nullptr) {
    v = hn::Mul(v, hn::Add(hn::LoadU(d, spec.weight + first + i), hn::Set(d, spec.weight_offset)));
  }
  if (spec.bias != nullptr) v = hn::Add(v, hn::LoadU(d, spec.bias + first + i));
  hn::StoreU(v, d, out + i);
}

void normalize(const float* x, int64_t n, float mean, float factor, const Device::NormSpec& spec, int64_t first,
               float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) normalize_at(d, x, mean, factor, spec, first, i, out);
  for (; i < n; ++i) normalize_at(hn::CappedTag<float, 1>(), x, mean, factor, spec, first, i, out);
}

template <bool kCentered>
HWY_INLINE void norm_rows(Mat x, const Device::NormSpec& spec, Mat out, int64_t begin, int64_t end) {
  const int64_t width = spec.width > 0 ? spec.width : x.cols;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t c = 0; c < x.cols; c += width) {
      const float* row = x.row(t) + c;
      const float n = static_cast<float>(width);
      const float mean = kCentered ? sum_of(row, width, [](auto, auto v) { return v; }) / n : 0.0f;
      const float squares = sum_of(row, width, [mean](auto d, auto v) {
        const auto centered = hn::Sub(v, hn::Set(d, mean));
        return hn::Mul(centered, centered);
      });
      const float factor = 1.0f / std::sqrt(squares / n + spec.epsilon);
      normalize(row, width, mean, factor, spec, spec.weight_per_slice ? c : 0, out.row(t) + c);
    }
  }
}

void rms_norm_rows(Mat x, const Device::NormSpec& spec, Mat out, int64_t begin, int64_t end) {
  norm_rows<false>(x, spec, out, begin, end);
}
void layer_norm_rows(Mat x, const Device::NormSpec& spec, Mat out, int64_t begin, int64_t end) {
  norm_rows<true>(x, spec, out, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(layer_norm_rows);

void rms_norm(ThreadPool& pool, Mat x, const Device::NormSpec& spec, Mat out) {
  parallel_rows(pool, x.rows, x.cols, 2, [&](int64_t begin, int64_t end, int32_t) {
    HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, spec, out, begin, end);
  });
}

void layer_norm(ThreadPool& pool, Mat x, const Device::NormSpec& spec, Mat out) {
  parallel_rows(pool, x.rows, x.cols, 3, [&](int64_t begin, int64_t end, int32_t) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)(x, spec, out, begin, end);
  });
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
