#include "engine/top_logprobs.h"

#include <algorithm>
#include <cmath>

namespace quern {

namespace {

double log_sum_exp(std::span<const float> logits, double largest) {
  double sum = 0;
  for (float logit : logits) {
    if (!std::isnan(logit)) sum += std::exp(static_cast<double>(logit) - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

RankedLogprob ranked_logprob(std::span<const float> logits, int32_t id) {
  const float logit = logits[static_cast<size_t>(id)];
  float largest = logit;
  int32_t rank = 1;
  for (float other : logits) {
    rank += other > logit;
    if (other > largest) largest = other;
  }
  const double log_sum = log_sum_exp(logits, static_cast<double>(largest));
  return {.logprob = static_cast<float>(static_cast<double>(logit) - log_sum), .rank = rank};
}

void top_logprobs(std::span<const float> logits, int32_t count, std::vector<std::pair<int32_t, float>>& out) {
  out.clear();
  const auto better = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  // A heap with the worst of the best on top: most tokens are refused by one comparison.
  for (size_t id = 0; id < logits.size(); ++id) {
    const std::pair<int32_t, float> candidate(static_cast<int32_t>(id), logits[id]);
    if (std::isnan(candidate.second)) continue;
    if (out.size() == static_cast<size_t>(count)) {
      if (!better(candidate, out.front())) continue;
      std::ranges::pop_heap(out, better);
      out.pop_back();
    }
    out.push_back(candidate);
    std::ranges::push_heap(out, better);
  }
  std::ranges::sort_heap(out, better);
  if (out.empty()) return;
  const double largest = out.front().second;
  const double log_sum = log_sum_exp(logits, largest);
  for (auto& [id, value] : out) value = static_cast<float>(value - log_sum);
}

}  // namespace quern
