// The most likely tokens of a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace quern {

// The `count` largest log-softmax values with their ids, best first; equal ones by smaller id. NaN logits are never
// among them.
void top_logprobs(std::span<const float> logits, int32_t count, std::vector<std::pair<int32_t, float>>& out);

struct RankedLogprob {
  float logprob = 0;
  int32_t rank = 0;  // 1: no token is more likely
};
RankedLogprob ranked_logprob(std::span<const float> logits, int32_t id);

}  // namespace quern
