// DRY ("don't repeat yourself"): a token that would lengthen a repetition of earlier text loses more the longer the
// repetition is. As llama.cpp's sampler of this name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quern {

// Places that a repetition cannot span. Each breaker is a token, and the tokens that must follow it for the whole to
// count: a breaker string may begin inside one token and end in another.
struct DryBreakers {
  struct Breaker {
    int32_t head = 0;
    std::vector<int32_t> tail;
    auto operator<=>(const Breaker&) const = default;
  };
  std::vector<Breaker> breakers;  // sorted
};

struct DryParams {
  float multiplier = 0.0f;  // 0: off
  float base = 1.75f;
  int32_t allowed_length = 2;   // repetitions up to here cost nothing
  int32_t penalty_last_n = -1;  // tokens looked at; -1: all, 0: off
  std::shared_ptr<const DryBreakers> breakers;

  bool enabled() const { return multiplier != 0.0f && base >= 1.0f && penalty_last_n != 0; }
};

class DryPenalty {
 public:
  explicit DryPenalty(const DryParams& params) : params_(params) {}
  // (id, what its logit loses) for every token that would lengthen a repetition, by id. Linear in the context.
  std::span<const std::pair<int32_t, float>> compute(std::span<const int32_t> prompt, std::span<const int32_t> output);

 private:
  int32_t longest_unbroken() const;

  DryParams params_;
  std::vector<int32_t> reversed_;  // the context, last token first
  std::vector<int32_t> matches_;   // [i]: how many tokens from i on equal those from 0 on
  std::vector<std::pair<int32_t, int32_t>> lengths_;
  std::vector<std::pair<int32_t, float>> losses_;
};

}  // namespace quern
