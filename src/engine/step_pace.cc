#include "engine/step_pace.h"

#include <algorithm>
#include <bit>

namespace quern {

namespace {

constexpr int32_t kManyTokens = 24;             // from here on a step's time is about its tokens
constexpr int32_t kTokensMin = 8;               // a prompt always moves on by this much
constexpr double kDecodeTokensUnmeasured = 16;  // a step of decodes reads the weights, as long as computing some tokens
constexpr double kUsualStretchMax = 2;          // a step that something else held up says little of the usual ones
// So many streams that run are asked to wait no longer than their pace for one that comes; fewer wait longer.
constexpr double kRunningPerNewcomer = 4;

}  // namespace

size_t StepPace::size_class(int32_t tokens) {
  return std::min<size_t>(15, static_cast<size_t>(std::bit_width(static_cast<uint32_t>(std::max(tokens, 1) - 1))));
}

void StepPace::record(const StepTokens& tokens, double seconds) {
  if (tokens.prompts == 0 && tokens.decodes > 0) {
    Size& size = by_tokens_[size_class(tokens.all())];
    blend(size.tokens, tokens.all());
    blend(size.seconds, seconds);
    double& usual = by_decodes_[size_class(tokens.decodes)].seconds;
    blend(usual, usual == 0 ? seconds : std::min(seconds, kUsualStretchMax * usual));
  } else if (tokens.all() >= kManyTokens) {
    blend(token_seconds_, seconds / tokens.all());
  }
}

// Smaller sizes first, they promise less.
double StepPace::nearest_seconds(const Sizes& sizes, int32_t tokens) {
  const size_t wanted = size_class(tokens);
  for (size_t distance = 0; distance < sizes.size(); ++distance) {
    if (distance <= wanted && sizes[wanted - distance].seconds > 0) return sizes[wanted - distance].seconds;
    if (wanted + distance < sizes.size() && sizes[wanted + distance].seconds > 0) {
      return sizes[wanted + distance].seconds;
    }
  }
  return 0;
}

double StepPace::decode_seconds(int32_t decodes) const {
  return nearest_seconds(by_tokens_, decodes);
}

double StepPace::guess_cost(int32_t decodes) const {
  constexpr double kUnmeasured = 0.15;
  const double share = decode_seconds(decodes) / std::max(decodes, 1);
  if (share == 0) return kUnmeasured;
  // Steps with guesses are steps of more tokens: what the next size takes longer is what these cost.
  const Size& without = by_tokens_[size_class(decodes)];
  for (size_t larger = size_class(decodes) + 1; larger < by_tokens_.size() && without.seconds > 0; ++larger) {
    const Size& with = by_tokens_[larger];
    if (with.seconds == 0) continue;
    return std::max(0.0, with.seconds - without.seconds) / (with.tokens - without.tokens) / share;
  }
  return token_seconds_ == 0 ? kUnmeasured : token_seconds_ / share;
}

int32_t StepPace::prefill_tokens_max(int32_t decodes, int32_t newcomers, int32_t guesses) const {
  if (ratio_ <= 0 || decodes == 0) return 0;
  const double patience = std::max(1.0, kRunningPerNewcomer * newcomers / decodes);
  const double decode = nearest_seconds(by_decodes_, decodes);
  // A crowd that comes to a fresh server leaves no step of decodes alone to be measured.
  const double decode_tokens = decode == 0 || token_seconds_ == 0 ? kDecodeTokensUnmeasured : decode / token_seconds_;
  const double tokens = patience * ratio_ * (decode_tokens + newcomers) - decodes - guesses;
  return static_cast<int32_t>(std::clamp(tokens, double{kTokensMin}, 1e6));
}

}  // namespace quern
