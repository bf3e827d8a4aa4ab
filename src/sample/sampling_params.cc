#include <cmath>
#include <limits>
#include <string_view>

#include "base/status.h"
#include "sample/sampler.h"

namespace quern {
namespace {

struct Range {
  std::string_view field;
  float value;
  float low, high;
  bool low_open = false;
};

Status check(const Range& range) {
  const bool above = range.low_open ? range.value > range.low : range.value >= range.low;
  if (std::isfinite(range.value) && above && range.value <= range.high) return {};
  const char* open = range.low_open ? "(" : "[";
  const std::string high = std::isinf(range.high) ? "inf)" : fmt::format("{}]", range.high);
  return invalid_argument(fmt::format("{}: {} is outside {}{}, {}", range.field, range.value, open, range.low, high));
}

}  // namespace

Status validate(const SamplingParams& params, int32_t vocab_size) {
  constexpr float kUnbounded = std::numeric_limits<float>::infinity();
  const Range ranges[] = {
      {"temperature", params.temperature, 0.0f, kUnbounded},
      {"top_p", params.top_p, 0.0f, 1.0f, /*low_open=*/true},
      {"min_p", params.min_p, 0.0f, 1.0f},
      {"typical_p", params.typical_p, 0.0f, 1.0f, /*low_open=*/true},
      {"repetition_penalty", params.repetition_penalty, 0.0f, kUnbounded, /*low_open=*/true},
      {"presence_penalty", params.presence_penalty, -2.0f, 2.0f},
      {"frequency_penalty", params.frequency_penalty, -2.0f, 2.0f},
  };
  for (const Range& range : ranges) QUERN_TRY(check(range));
  if (params.top_k < -1) {
    return invalid_argument(fmt::format("top_k: {} is neither -1 or 0 (off) nor positive", params.top_k));
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return invalid_argument(fmt::format("logit_bias: token id {} is outside [0, {})", id, vocab_size));
    }
    if (!std::isfinite(bias))
      return invalid_argument(fmt::format("logit_bias: {} for token {} is not finite", bias, id));
  }
  return {};
}

}  // namespace quern
