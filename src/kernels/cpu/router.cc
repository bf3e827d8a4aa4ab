#include "kernels/cpu/parallel_rows.h"
#include "kernels/cpu/row_ops.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/float_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/router.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <limits>

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = quern::vector_math::HWY_NAMESPACE;

template <class F>
HWY_INLINE void map(float* x, int64_t n, const F& f) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, x + i);
  for (; i < n; ++i) hn::StoreU(f(d1, hn::LoadU(d1, x + i)), d1, x + i);
}

void sigmoid_row(float* x, int64_t n) {
  map(x, n, [](auto d, auto v) { return vm::sigmoid(d, v); });
}

void softmax_row(float* x, int64_t n) {
  float max = x[0];
  for (int64_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  map(x, n, [&](auto d, auto v) { return vm::exp(d, hn::Sub(v, hn::Set(d, max))); });
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  map(x, n, [&](auto d, auto v) { return hn::Div(v, hn::Set(d, sum)); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(sigmoid_row);
HWY_EXPORT(softmax_row);

namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

// The largest of `values` that is not taken; of equal values the first. NaN counts as taken, so that a choice always
// exists and terminates: where nothing is left, the first index.
int64_t first_largest(std::span<const float> values) {
  int64_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const float current = values[static_cast<size_t>(best)];
    if (values[i] > current || (current != current && values[i] == values[i])) best = static_cast<int64_t>(i);
  }
  return best;
}

float group_score(std::span<const float> members, bool top2) {
  const auto best = static_cast<size_t>(first_largest(members));
  if (!top2 || members.size() < 2) return members[best];
  float second = kTaken;
  for (size_t i = 0; i < members.size(); ++i) {
    if (i != best && members[i] > second) second = members[i];
  }
  return members[best] + second;
}

// Takes the experts of all but the best top_groups groups out of the choice. `marks` has room for 2 * num_groups.
void keep_best_groups(std::span<float> choice, const RouterSpec& spec, std::span<float> marks) {
  const size_t groups = static_cast<size_t>(spec.num_groups), size = choice.size() / groups;
  const std::span<float> scores = marks.first(groups), eligible = marks.subspan(groups, groups);
  for (size_t g = 0; g < groups; ++g) {
    scores[g] = group_score(choice.subspan(g * size, size), spec.group_score_top2);
    eligible[g] = 0;
  }
  for (int32_t i = 0; i < spec.top_groups; ++i) {
    const auto best = static_cast<size_t>(first_largest(scores));
    eligible[best] = 1;
    scores[best] = kTaken;
  }
  for (size_t g = 0; g < groups; ++g) {
    if (eligible[g] == 0) std::ranges::fill(choice.subspan(g * size, size), kTaken);
  }
}

void weigh(std::span<float> weights, const RouterSpec& spec) {
  if (spec.softmax_after_top_k) {
    HWY_DYNAMIC_DISPATCH(softmax_row)(weights.data(), static_cast<int64_t>(weights.size()));
  }
  if (spec.normalize) {
    float sum = 1e-20f;
    for (float w : weights) sum += w;
    for (float& w : weights) w /= sum;
  }
  for (float& w : weights) w *= spec.scale;
}

// scratch: [2 * experts], scores and what the choice is made by.
void route_row(const float* logits, int64_t experts, const RouterSpec& spec, std::span<int32_t> ids,
               std::span<float> weights, float* scratch) {
  const std::span<float> scores(scratch, static_cast<size_t>(experts));
  const std::span<float> choice(scratch + experts, static_cast<size_t>(experts));
  const std::span<float> marks(scratch + 2 * experts, static_cast<size_t>(2 * spec.num_groups));
  std::copy_n(logits, experts, scores.begin());
  if (spec.sigmoid) {
    HWY_DYNAMIC_DISPATCH(sigmoid_row)(scores.data(), experts);
  } else if (!spec.softmax_after_top_k) {
    HWY_DYNAMIC_DISPATCH(softmax_row)(scores.data(), experts);
  }
  for (size_t e = 0; e < choice.size(); ++e) choice[e] = scores[e] + (spec.bias != nullptr ? spec.bias[e] : 0.0f);
  if (spec.num_groups > spec.top_groups) keep_best_groups(choice, spec, marks);
  for (size_t k = 0; k < ids.size(); ++k) {
    const auto best = static_cast<size_t>(first_largest(choice));
    ids[k] = static_cast<int32_t>(best);
    weights[k] = scores[best];
    choice[best] = kTaken;
  }
  weigh(weights, spec);
}

}  // namespace

void route(ThreadPool& pool, Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights,
           std::vector<float>& scratch) {
  const int64_t per_thread = 2 * logits.cols + 2 * spec.num_groups;
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(pool.num_threads() * per_thread)));
  const auto top_k = static_cast<size_t>(spec.top_k);
  parallel_rows(pool, logits.rows, logits.cols, 20, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t t = begin; t < end; ++t) {
      const size_t at = static_cast<size_t>(t) * top_k;
      route_row(logits.row(t), logits.cols, spec, ids.subspan(at, top_k), weights.subspan(at, top_k),
                scratch.data() + thread * per_thread);
    }
  });
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
