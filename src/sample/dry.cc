#include "sample/dry.h"

#include <algorithm>
#include <cmath>

namespace quern {

// Tokens at the end of the context before the last breaker: a repetition is at most this long. A breaker's tail lies
// behind its head, so in the reversed context before it.
int32_t DryPenalty::longest_unbroken() const {
  const auto length = static_cast<int32_t>(reversed_.size());
  if (!params_.breakers || params_.breakers->breakers.empty()) return length;
  const auto& breakers = params_.breakers->breakers;
  for (int32_t i = 0; i < length; ++i) {
    auto breaker =
        std::ranges::lower_bound(breakers, reversed_[static_cast<size_t>(i)], {}, &DryBreakers::Breaker::head);
    int32_t longest_tail = -1;
    for (; breaker != breakers.end() && breaker->head == reversed_[static_cast<size_t>(i)]; ++breaker) {
      const auto tail = static_cast<int32_t>(breaker->tail.size());
      if (tail <= longest_tail || tail > i) continue;
      const auto behind = reversed_.begin() + (i - tail);
      if (std::equal(breaker->tail.rbegin(), breaker->tail.rend(), behind)) longest_tail = tail;
    }
    if (longest_tail >= 0) return i - longest_tail;
  }
  return length;
}

std::span<const std::pair<int32_t, float>> DryPenalty::compute(std::span<const int32_t> prompt,
                                                               std::span<const int32_t> output) {
  losses_.clear();
  const size_t known = prompt.size() + output.size();
  const size_t length = params_.penalty_last_n < 0 ? known : std::min(known, size_t(params_.penalty_last_n));
  if (!params_.enabled() || length <= static_cast<size_t>(params_.allowed_length)) return losses_;
  reversed_.resize(length);
  for (size_t i = 0; i < length; ++i) {
    const size_t at = known - 1 - i;
    reversed_[i] = at >= prompt.size() ? output[at - prompt.size()] : prompt[at];
  }
  const int32_t longest = longest_unbroken();
  if (longest < params_.allowed_length) return losses_;

  // The Z function: each step either copies an answer or moves `end` on.
  matches_.assign(length, 0);
  size_t begin = 0, end = 0;
  for (size_t i = 1; i < length; ++i) {
    size_t match = i < end ? std::min(end - i, static_cast<size_t>(matches_[i - begin])) : 0;
    while (i + match < length && reversed_[match] == reversed_[i + match]) ++match;
    matches_[i] = static_cast<int32_t>(match);
    if (i + match > end) begin = i, end = i + match;
  }
  lengths_.clear();
  for (size_t i = 1; i < length; ++i) {
    const int32_t repeated = std::min(matches_[i], longest);
    if (repeated >= params_.allowed_length) lengths_.emplace_back(reversed_[i - 1], repeated);
  }
  std::ranges::sort(lengths_);
  // Beyond this exponent the penalty would be infinite.
  const float exponent_max = params_.base > 1.000001f ? std::floor(88.7f / std::log(params_.base)) : 1e9f;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    if (i + 1 < lengths_.size() && lengths_[i + 1].first == lengths_[i].first) continue;  // the longest comes last
    const auto exponent = std::min(exponent_max, static_cast<float>(lengths_[i].second - params_.allowed_length));
    losses_.emplace_back(lengths_[i].first, params_.multiplier * std::pow(params_.base, exponent));
  }
  return losses_;
}

}  // namespace quern
