#include "kernels/cpu/parallel_rows.h"
#include "kernels/cpu/row_ops.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/float_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <cstring>

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = quern::vector_math::HWY_NAMESPACE;

// out[i] = f(d, i, x[i]) with whole vectors, then with single lanes.
template <class F>
HWY_INLINE void map(const float* x, int64_t n, float* out, const F& f) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, i, hn::LoadU(d, x + i)), d, out + i);
  for (; i < n; ++i) hn::StoreU(f(d1, i, hn::LoadU(d1, x + i)), d1, out + i);
}

// out = f(x), times up where there is one.
template <class F>
HWY_INLINE void map_multiply(const float* x, const float* up, int64_t n, float* out, const F& f) {
  if (up == nullptr) {
    map(x, n, out, [&](auto d, int64_t, auto v) { return f(d, v); });
  } else {
    map(x, n, out, [&](auto d, int64_t i, auto v) { return hn::Mul(f(d, v), hn::LoadU(d, up + i)); });
  }
}

void activate_row(const float* x, const float* up, int64_t n, Activation kind, float* out) {
  switch (kind) {
    case Activation::kSilu:
      return map_multiply(x, up, n, out, [](auto d, auto v) { return hn::Mul(v, vm::sigmoid(d, v)); });
    case Activation::kGelu: return map_multiply(x, up, n, out, [](auto d, auto v) { return vm::gelu_erf(d, v); });
    case Activation::kGeluTanh: return map_multiply(x, up, n, out, [](auto d, auto v) { return vm::gelu_tanh(d, v); });
    case Activation::kQuickGelu:
      return map_multiply(x, up, n, out,
                          [](auto d, auto v) { return hn::Mul(v, vm::sigmoid(d, hn::Mul(v, hn::Set(d, 1.702f)))); });
    case Activation::kRelu: return map_multiply(x, up, n, out, [](auto d, auto v) { return hn::Max(hn::Zero(d), v); });
    case Activation::kReluSquared:
      return map_multiply(x, up, n, out, [](auto d, auto v) {
        const auto positive = hn::Max(hn::Zero(d), v);
        return hn::Mul(positive, positive);
      });
    case Activation::kTanh: return map_multiply(x, up, n, out, [](auto d, auto v) { return vm::tanh(d, v); });
    case Activation::kSigmoid: return map_multiply(x, up, n, out, [](auto d, auto v) { return vm::sigmoid(d, v); });
  }
}

void swiglu_clamped_row(const float* gate, const float* up, int64_t n, float limit, float* out) {
  map(gate, n, out, [&](auto d, int64_t i, auto v) {
    const auto g = hn::Min(hn::Set(d, limit), v);
    const auto u = hn::Min(hn::Set(d, limit), hn::Max(hn::Set(d, -limit), hn::LoadU(d, up + i)));
    const auto gated = hn::Mul(g, vm::sigmoid(d, hn::Mul(g, hn::Set(d, 1.702f))));
    return hn::Mul(gated, hn::Add(u, hn::Set(d, 1.0f)));
  });
}

void add_scaled_row(const float* x, const float* y, int64_t n, float y_scale, float* out) {
  map(x, n, out, [&](auto d, int64_t i, auto v) { return hn::MulAdd(hn::LoadU(d, y + i), hn::Set(d, y_scale), v); });
}

void scale_row(const float* x, int64_t n, float factor, float* out) {
  map(x, n, out, [&](auto d, int64_t, auto v) { return hn::Mul(v, hn::Set(d, factor)); });
}

void softcap_row(const float* x, int64_t n, float cap, float* out) {
  map(x, n, out,
      [&](auto d, int64_t, auto v) { return hn::Mul(vm::tanh(d, hn::Div(v, hn::Set(d, cap))), hn::Set(d, cap)); });
}

// out = Σ_k weights[k] * x[k], k ascending.
void combine_row(Mat x, const float* weights, float* out) {
  map(x.row(0), x.cols, out, [&](auto d, int64_t i, auto first) {
    auto sum = hn::Mul(first, hn::Set(d, weights[0]));
    for (int64_t k = 1; k < x.rows; ++k) sum = hn::MulAdd(hn::LoadU(d, x.row(k) + i), hn::Set(d, weights[k]), sum);
    return sum;
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(activate_row);
HWY_EXPORT(swiglu_clamped_row);
HWY_EXPORT(add_scaled_row);
HWY_EXPORT(scale_row);
HWY_EXPORT(softcap_row);
HWY_EXPORT(combine_row);

namespace {

// Calls body(row) for each row of a matrix of this shape.
void each_row(ThreadPool& pool, Mat shape, int64_t element_cost, const auto& body) {
  parallel_rows(pool, shape.rows, shape.cols, element_cost, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t t = begin; t < end; ++t) body(t);
  });
}

int64_t cost(Activation kind) {
  return kind == Activation::kRelu || kind == Activation::kReluSquared ? 1 : 6;
}

}  // namespace

void activate(ThreadPool& pool, Mat x, Activation kind, Mat out) {
  each_row(pool, x, cost(kind),
           [&](int64_t t) { HWY_DYNAMIC_DISPATCH(activate_row)(x.row(t), nullptr, x.cols, kind, out.row(t)); });
}

void activate_multiply(ThreadPool& pool, Mat gate, Mat up, Activation kind, Mat out) {
  each_row(pool, gate, cost(kind),
           [&](int64_t t) { HWY_DYNAMIC_DISPATCH(activate_row)(gate.row(t), up.row(t), gate.cols, kind, out.row(t)); });
}

void swiglu_clamped(ThreadPool& pool, Mat gate, Mat up, float limit, Mat out) {
  each_row(pool, gate, 6, [&](int64_t t) {
    HWY_DYNAMIC_DISPATCH(swiglu_clamped_row)(gate.row(t), up.row(t), gate.cols, limit, out.row(t));
  });
}

void add(ThreadPool& pool, Mat x, Mat y, float y_scale, Mat out) {
  each_row(pool, x, 1,
           [&](int64_t t) { HWY_DYNAMIC_DISPATCH(add_scaled_row)(x.row(t), y.row(t), x.cols, y_scale, out.row(t)); });
}

void add_row(ThreadPool& pool, Mat x, const float* row, Mat out) {
  each_row(pool, x, 1,
           [&](int64_t t) { HWY_DYNAMIC_DISPATCH(add_scaled_row)(x.row(t), row, x.cols, 1.0f, out.row(t)); });
}

void scale(ThreadPool& pool, Mat x, float factor, Mat out) {
  each_row(pool, x, 1, [&](int64_t t) { HWY_DYNAMIC_DISPATCH(scale_row)(x.row(t), x.cols, factor, out.row(t)); });
}

void scale_rows(ThreadPool& pool, Mat x, std::span<const float> factors, Mat out) {
  each_row(pool, x, 1, [&](int64_t t) {
    HWY_DYNAMIC_DISPATCH(scale_row)(x.row(t), x.cols, factors[static_cast<size_t>(t)], out.row(t));
  });
}

void softcap(ThreadPool& pool, Mat x, float cap, Mat out) {
  each_row(pool, x, 6, [&](int64_t t) { HWY_DYNAMIC_DISPATCH(softcap_row)(x.row(t), x.cols, cap, out.row(t)); });
}

void gather_rows(ThreadPool& pool, Mat x, std::span<const int32_t> rows, Mat out) {
  const auto bytes = static_cast<size_t>(x.cols) * sizeof(float);
  each_row(pool, out, 1, [&](int64_t t) { std::memcpy(out.row(t), x.row(rows[static_cast<size_t>(t)]), bytes); });
}

void copy(ThreadPool& pool, Mat x, Mat out) {
  const auto bytes = static_cast<size_t>(x.cols) * sizeof(float);
  each_row(pool, x, 1, [&](int64_t t) { std::memmove(out.row(t), x.row(t), bytes); });
}

void combine_experts(ThreadPool& pool, Mat x, std::span<const float> weights, int32_t top_k, Mat out) {
  each_row(pool, out, top_k, [&](int64_t t) {
    HWY_DYNAMIC_DISPATCH(combine_row)(x.slice_rows(t * top_k, top_k), weights.data() + t * top_k, out.row(t));
  });
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
