#include "sample/draft_policy.h"

#include <algorithm>

namespace quern {

namespace {
constexpr double kNewest = 0.3;
constexpr int32_t kPauseMax = 256;
}  // namespace

int32_t DraftPolicy::next_length() {
  if (pause_ == 0) return length_;
  --pause_;
  return 0;
}

void DraftPolicy::record(int32_t drafted, int32_t accepted, double token_cost) {
  if (drafted == 0) return;
  length_ = accepted == drafted ? std::max(length_, std::min(2 * drafted, length_max_))
                                : std::clamp(2 * accepted, 1, length_max_);
  accepted_ += kNewest * (accepted - accepted_);
  cost_ += kNewest * (drafted * token_cost - cost_);
  if (accepted_ > cost_) {
    next_pause_ = 4;
    return;
  }
  // Each failure in a row waits twice as long; a fresh try starts with a mean that one bad round does not sink.
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kPauseMax);
  accepted_ = cost_ + 0.1;
  length_ = std::min(2, length_max_);
}

}  // namespace quern
