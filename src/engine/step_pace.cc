#include "engine/step_pace.h"

#include <algorithm>
#include <bit>

namespace quern {

namespace {

constexpr int32_t kManyTokens = 24;             // from here on a step's time is about its tokens
constexpr int32_t kTokensMin = 8;               // a prompt always moves on by this much
constexpr double kDecodeTokensUnmeasured = 16;  // a step of decodes reads the weights, as long as computing some tokens
// So many streams that run are asked to wait no longer than their pace for one that comes; fewer wait longer.
constexpr double kRunningPerNewcomer = 4;

}  // namespace

size_t StepPace::size_class(int32_t tokens) {
  return std::min<size_t>(15, static_cast<size_t>(std::bit_width(static_cast<uint32_t>(std::max(tokens, 1) - 1))));
}

void StepPace::record(int32_t prompt_tokens, int32_t tokens, double seconds) {
  if (prompt_tokens == 0 && tokens > 0) {
    Size& size = sizes_[size_class(tokens)];
    blend(size.tokens, tokens);
    blend(size.seconds, seconds);
  } else if (tokens >= kManyTokens) {
    blend(token_seconds_, seconds / tokens);
  }
}

double StepPace::decode_seconds(int32_t decodes) const {
  const size_t wanted = size_class(decodes);
  // The nearest size that was measured: smaller ones first, they promise less.
  for (size_t distance = 0; distance < sizes_.size(); ++distance) {
    if (distance <= wanted && sizes_[wanted - distance].seconds > 0) return sizes_[wanted - distance].seconds;
    if (wanted + distance < sizes_.size() && sizes_[wanted + distance].seconds > 0) {
      return sizes_[wanted + distance].seconds;
    }
  }
  return 0;
}

double StepPace::guess_cost(int32_t decodes) const {
  constexpr double kUnmeasured = 0.15;
  const double share = decode_seconds(decodes) / std::max(decodes, 1);
  if (share == 0) return kUnmeasured;
  // Steps with guesses are steps of more tokens: what the next size takes longer is what these cost.
  const Size& without = sizes_[size_class(decodes)];
  for (size_t larger = size_class(decodes) + 1; larger < sizes_.size() && without.seconds > 0; ++larger) {
    const Size& with = sizes_[larger];
    if (with.seconds == 0) continue;
    return std::max(0.0, with.seconds - without.seconds) / (with.tokens - without.tokens) / share;
  }
  return token_seconds_ == 0 ? kUnmeasured : token_seconds_ / share;
}

int32_t StepPace::prefill_tokens_max(int32_t decodes, int32_t newcomers, int32_t guesses) const {
  if (ratio_ <= 0 || decodes == 0) return 0;
  const double patience = std::max(1.0, kRunningPerNewcomer * newcomers / decodes);
  const double decode = decode_seconds(decodes);
  // A crowd that comes to a fresh server leaves no step of decodes alone to be measured.
  const double decode_tokens = decode == 0 || token_seconds_ == 0 ? kDecodeTokensUnmeasured : decode / token_seconds_;
  const double tokens = patience * ratio_ * (decode_tokens + newcomers) - decodes - guesses;
  return static_cast<int32_t>(std::clamp(tokens, double{kTokensMin}, 1e6));
}

}  // namespace quern
