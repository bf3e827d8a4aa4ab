#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace quern {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// theta^(2i / dim) in float32, the precision every implementation trains in.
std::vector<float> periods(double theta, int32_t dim) {
  std::vector<float> result(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    result[i] = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return result;
}

std::vector<float> plain_frequencies(const RopeConfig& config, const std::vector<float>& divisors) {
  std::vector<float> result = periods(config.theta, config.rotary_dim);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = 1.0f / (divisors.empty() ? result[i] : divisors[i] * result[i]);
  }
  return result;
}

// Llama 3.1: wavelengths beyond the original context are stretched by factor, short ones stay, a ramp between.
void stretch_llama3(const RopeConfig& config, std::vector<float>& frequencies) {
  const float context = static_cast<float>(config.original_context);
  const float low_wavelength = context / config.low_freq_factor;
  const float high_wavelength = context / config.high_freq_factor;
  for (float& frequency : frequencies) {
    const float wavelength = static_cast<float>(kTwoPi) / frequency;
    if (wavelength > low_wavelength) {
      frequency /= config.factor;
    } else if (wavelength >= high_wavelength) {
      const float smooth =
          (context / wavelength - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
      frequency = (1.0f - smooth) * frequency / config.factor + smooth * frequency;
    }
  }
}

// YaRN, "NTK-by-parts": dimensions that turn often keep their frequency, those that turn less than once are
// interpolated.
void stretch_yarn(const RopeConfig& config, std::vector<float>& frequencies) {
  const double dim = config.rotary_dim;
  const auto correction_dim = [&](double rotations) {
    return dim * std::log(config.original_context / (rotations * kTwoPi)) / (2.0 * std::log(config.theta));
  };
  double low = correction_dim(config.beta_fast);
  double high = correction_dim(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // a step instead of a division by zero
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double position = (static_cast<double>(i) - low) / (high - low);
    const float interpolated = static_cast<float>(std::clamp(position, 0.0, 1.0));
    frequencies[i] = frequencies[i] / config.factor * interpolated + frequencies[i] * (1.0f - interpolated);
  }
}

}  // namespace

float yarn_mscale(float factor, float m) {
  return factor <= 1.0f ? 1.0f : 0.1f * m * std::log(factor) + 1.0f;
}

RopeTable::RopeTable(const RopeConfig& config) : config_(config) {
  QUERN_CHECK(config.rotary_dim > 0 && config.rotary_dim % 2 == 0);
  short_ = plain_frequencies(config, config.short_factors);
  switch (config.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic: break;
    case RopeScaling::kLinear:
      for (float& frequency : short_) frequency /= config.factor;
      break;
    case RopeScaling::kLlama3: stretch_llama3(config, short_); break;
    case RopeScaling::kYarn: stretch_yarn(config, short_); break;
    case RopeScaling::kLongRope: long_ = plain_frequencies(config, config.long_factors); break;
  }
}

void RopeTable::fill(int32_t position, int32_t length, float* cosine, float* sine) const {
  const bool beyond = length > config_.original_context;
  const std::vector<float>& frequencies = config_.scaling == RopeScaling::kLongRope && beyond ? long_ : short_;
  std::copy(frequencies.begin(), frequencies.end(), cosine);
  if (config_.scaling == RopeScaling::kDynamic && beyond) fill_dynamic_frequencies(length, cosine);
  for (int32_t i = 0; i < half(); ++i) {
    const float angle = cosine[i] * static_cast<float>(position);
    cosine[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * config_.attention_factor;
    sine[i] = static_cast<float>(std::sin(static_cast<double>(angle))) * config_.attention_factor;
  }
}

// base' = base * (factor * length / context - (factor - 1)) ^ (dim / (dim - 2)).
void RopeTable::fill_dynamic_frequencies(int32_t length, float* frequencies) const {
  const double dim = config_.rotary_dim;
  const double ratio = static_cast<double>(config_.factor) * length / config_.original_context - (config_.factor - 1.0);
  const double theta = config_.theta * std::pow(ratio, dim / (dim - 2.0));
  for (int32_t i = 0; i < half(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config_.rotary_dim);
    frequencies[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
}

}  // namespace quern
