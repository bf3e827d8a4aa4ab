#include "models/encoders/pooling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace quern {
namespace {

std::vector<float> sum_divided(std::span<const float> states, size_t width, double divisor) {
  std::vector<double> sums(width, 0.0);
  for (size_t begin = 0; begin < states.size(); begin += width) {
    for (size_t i = 0; i < width; ++i) sums[i] += static_cast<double>(states[begin + i]);
  }
  std::vector<float> result(width);
  for (size_t i = 0; i < width; ++i) result[i] = static_cast<float>(sums[i] / divisor);
  return result;
}

std::vector<float> row(std::span<const float> states, size_t width, size_t index) {
  const std::span<const float> values = states.subspan(index * width, width);
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<float> pool(std::span<const float> states, int32_t hidden, Pooling pooling) {
  const auto width = static_cast<size_t>(hidden);
  QUERN_CHECK(width > 0 && !states.empty() && states.size() % width == 0);
  const size_t tokens = states.size() / width;
  switch (pooling) {
    case Pooling::kMean: return sum_divided(states, width, static_cast<double>(tokens));
    case Pooling::kMeanSqrtLen: return sum_divided(states, width, std::sqrt(static_cast<double>(tokens)));
    case Pooling::kFirst: return row(states, width, 0);
    case Pooling::kLast: return row(states, width, tokens - 1);
    case Pooling::kMax: {
      std::vector<float> result = row(states, width, 0);
      for (size_t i = width; i < states.size(); ++i) result[i % width] = std::max(result[i % width], states[i]);
      return result;
    }
  }
  QUERN_CHECK(false && "unknown pooling");
}

void normalize_l2(std::span<float> values) {
  double squares = 0.0;
  for (float value : values) squares += static_cast<double>(value) * value;
  if (squares == 0.0) return;
  const double factor = 1.0 / std::sqrt(squares);
  for (float& value : values) value = static_cast<float>(value * factor);
}

}  // namespace quern
