// Routing of mixtures of experts: softmax top-k (Shazeer et al. 2017), group-limited and bias-corrected choice
// (DeepSeek-V2 section 2.2.2, DeepSeek-V3 section 2.1.2).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/checks.h"
#include "kernels/ref/reference_device.h"

namespace quern {
namespace {

void softmax(std::vector<double>& v) {
  const double max = std::ranges::max(v);
  double sum = 0;
  for (double& x : v) sum += x = std::exp(x - max);
  for (double& x : v) x /= sum;
}

// Indices of the `count` largest values, largest first; of equal values the lower index comes first.
std::vector<size_t> largest(const std::vector<double>& values, size_t count) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // A NaN sorts below every number, so that the order stays total.
  auto key = [&](size_t i) { return std::isnan(values[i]) ? -std::numeric_limits<double>::infinity() : values[i]; };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return key(a) > key(b); });
  order.resize(count);
  return order;
}

std::vector<size_t> choose(const std::vector<double>& choice, const RouterSpec& spec) {
  const size_t num_groups = static_cast<size_t>(spec.num_groups);
  const size_t group_size = choice.size() / num_groups;
  std::vector<double> group_scores;
  for (size_t g = 0; g < num_groups; ++g) {
    const auto begin = choice.begin() + static_cast<std::ptrdiff_t>(g * group_size);
    const std::vector<double> members(begin, begin + static_cast<std::ptrdiff_t>(group_size));
    double score = 0;
    for (size_t best : largest(members, spec.group_score_top2 ? std::min<size_t>(2, group_size) : 1)) {
      score += members[best];
    }
    group_scores.push_back(score);
  }
  // Ranks candidates of eligible groups only: an ineligible expert is never chosen, however low the others score.
  std::vector<size_t> candidates;
  for (size_t g : largest(group_scores, static_cast<size_t>(spec.top_groups))) {
    for (size_t e = 0; e < group_size; ++e) candidates.push_back(g * group_size + e);
  }
  std::ranges::sort(candidates);
  std::vector<double> scores;
  for (size_t e : candidates) scores.push_back(choice[e]);
  std::vector<size_t> chosen = largest(scores, static_cast<size_t>(spec.top_k));
  for (size_t& c : chosen) c = candidates[c];
  return chosen;
}

}  // namespace

void ReferenceDevice::route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) {
  checks::route(logits, spec, ids, weights);
  for (int64_t t = 0; t < logits.rows; ++t) {
    std::vector<double> scores(logits.row(t), logits.row(t) + logits.cols);
    if (spec.sigmoid) {
      for (double& s : scores) s = 1.0 / (1.0 + std::exp(-s));
    } else if (!spec.softmax_after_top_k) {
      softmax(scores);
    }
    std::vector<double> choice = scores;
    if (spec.bias != nullptr) {
      for (size_t e = 0; e < choice.size(); ++e) choice[e] += spec.bias[e];
    }
    const std::vector<size_t> chosen = choose(choice, spec);
    std::vector<double> chosen_weights;
    for (size_t e : chosen) chosen_weights.push_back(scores[e]);
    if (spec.softmax_after_top_k) softmax(chosen_weights);
    if (spec.normalize) {
      const double sum = std::accumulate(chosen_weights.begin(), chosen_weights.end(), 1e-20);
      for (double& w : chosen_weights) w /= sum;
    }
    for (size_t k = 0; k < chosen.size(); ++k) {
      const size_t at = static_cast<size_t>(t) * chosen.size() + k;
      ids[at] = static_cast<int32_t>(chosen[k]);
      weights[at] = static_cast<float>(chosen_weights[k] * spec.scale);
    }
  }
}

void ReferenceDevice::combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out) {
  checks::combine_experts(x, weights, top_k, out);
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t c = 0; c < out.cols; ++c) {
      double sum = 0;
      for (int64_t i = t * top_k; i < (t + 1) * top_k; ++i)
        sum += double{weights[static_cast<size_t>(i)]} * x.row(i)[c];
      out.row(t)[c] = static_cast<float>(sum);
    }
  }
}

}  // namespace quern
