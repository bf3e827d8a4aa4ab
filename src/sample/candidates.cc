#include "sample/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quern {
namespace {

bool goes_first(const Candidate& a, const Candidate& b) {
  return a.order != b.order ? a.order < b.order : a.id < b.id;
}

bool larger_weight(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

// Keeps the shortest prefix, in goes_first order, whose mass reaches `mass`. Sorts slices of growing length until it is
// reached: probability is concentrated, so the first slice usually is enough.
void keep_mass(std::vector<Candidate>& candidates, double mass) {
  double sum = 0;
  size_t sorted = 0;
  for (size_t slice = 128; sorted < candidates.size(); slice *= 4) {
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    const size_t end = std::min(sorted + slice, candidates.size());
    const auto middle = candidates.begin() + static_cast<ptrdiff_t>(end);
    if (middle != candidates.end()) std::nth_element(begin, middle, candidates.end(), goes_first);
    std::sort(begin, middle, goes_first);
    for (; sorted < end; ++sorted) {
      sum += static_cast<double>(candidates[sorted].weight);
      if (sum >= mass) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

}  // namespace

void select_top_k(std::span<const float> logits, int32_t k, std::vector<Candidate>& out) {
  QUERN_CHECK(k > 0);
  const size_t keep = static_cast<size_t>(k);
  const size_t room = std::max<size_t>(2 * keep, 256);
  const auto cut = [&] {
    std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(keep - 1), out.end(), larger_weight);
    out.resize(keep);
  };
  out.clear();
  // A logit equal to the k-th so far comes later, so it loses the tie: only larger ones are looked at.
  float threshold = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > threshold)) continue;
    out.push_back({.id = static_cast<int32_t>(i), .weight = logits[i]});
    if (out.size() < room) continue;
    cut();
    threshold = out.back().weight;
  }
  if (out.size() > keep) cut();
  std::ranges::sort(out, {}, &Candidate::id);
}

void select_above(std::span<const float> weights, float threshold, std::vector<Candidate>& out) {
  out.clear();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= threshold && weights[i] > 0) {
      out.push_back({.id = static_cast<int32_t>(i), .weight = weights[i]});
    }
  }
}

void select_above_logit(std::span<const float> logits, float threshold, std::vector<Candidate>& out) {
  out.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= threshold) out.push_back({.id = static_cast<int32_t>(i), .weight = logits[i]});
  }
}

double total_weight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += static_cast<double>(candidate.weight);
  return total;
}

void keep_typical(std::vector<Candidate>& candidates, double p) {
  const double total = total_weight(candidates);
  double entropy = 0;
  for (Candidate& candidate : candidates) {
    const double probability = static_cast<double>(candidate.weight) / total;
    candidate.order = probability > 0 ? -std::log(probability) : std::numeric_limits<double>::infinity();
    if (probability > 0) entropy += probability * candidate.order;
  }
  for (Candidate& candidate : candidates) candidate.order = std::abs(candidate.order - entropy);
  keep_mass(candidates, p * total);
}

void keep_top_p(std::vector<Candidate>& candidates, double p, double total) {
  for (Candidate& candidate : candidates) candidate.order = -static_cast<double>(candidate.weight);
  keep_mass(candidates, p * total);
}

void keep_min_p(std::vector<Candidate>& candidates, float min_p) {
  const float largest = std::ranges::max_element(candidates, {}, &Candidate::weight)->weight;
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.weight < min_p * largest; });
}

int32_t draw_candidate(std::span<const Candidate> candidates, double uniform) {
  const double target = uniform * total_weight(candidates);
  double sum = 0;
  const Candidate* chosen = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight == 0) continue;
    chosen = &candidate;
    sum += static_cast<double>(candidate.weight);
    if (sum > target) break;
  }
  QUERN_CHECK(chosen != nullptr);
  return chosen->id;
}

}  // namespace quern
