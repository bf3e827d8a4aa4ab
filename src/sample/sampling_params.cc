#include <algorithm>
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

Status check_id(std::string_view field, int32_t id, int32_t vocab_size) {
  if (id >= 0 && id < vocab_size) return {};
  return invalid_argument(fmt::format("{}: token id {} is outside [0, {})", field, id, vocab_size));
}

Status check_ranges(const SamplingParams& params) {
  constexpr float kUnbounded = std::numeric_limits<float>::infinity();
  const Range ranges[] = {
      {"temperature", params.temperature, 0.0f, kUnbounded},
      {"top_p", params.top_p, 0.0f, 1.0f, /*low_open=*/true},
      {"min_p", params.min_p, 0.0f, 1.0f},
      {"typical_p", params.typical_p, 0.0f, 1.0f, /*low_open=*/true},
      {"top_n_sigma", params.top_n_sigma, -1.0f, kUnbounded},
      {"xtc_probability", params.xtc_probability, 0.0f, 1.0f},
      {"xtc_threshold", params.xtc_threshold, 0.0f, 1.0f},
      {"repetition_penalty", params.repetition_penalty, 0.0f, kUnbounded, /*low_open=*/true},
      {"presence_penalty", params.presence_penalty, -2.0f, 2.0f},
      {"frequency_penalty", params.frequency_penalty, -2.0f, 2.0f},
      {"dry_multiplier", params.dry.multiplier, 0.0f, kUnbounded},
      {"dry_base", params.dry.base, 0.0f, kUnbounded},
      {"mirostat_tau", params.mirostat_tau, 0.0f, kUnbounded},
      {"mirostat_eta", params.mirostat_eta, 0.0f, kUnbounded},
  };
  for (const Range& range : ranges) QUERN_TRY(check(range));
  if (params.top_k < -1) {
    return invalid_argument(fmt::format("top_k: {} is neither -1 or 0 (off) nor positive", params.top_k));
  }
  if (params.mirostat < 0 || params.mirostat > 2) {
    return invalid_argument(fmt::format("mirostat: {} is not one of 0, 1, 2", params.mirostat));
  }
  if (params.dry.allowed_length < 0) {
    return invalid_argument(fmt::format("dry_allowed_length: {} is negative", params.dry.allowed_length));
  }
  if (params.dry.penalty_last_n < -1) {
    return invalid_argument(
        fmt::format("dry_penalty_last_n: {} is neither -1 (all) nor a count", params.dry.penalty_last_n));
  }
  if (params.min_tokens < 0) return invalid_argument(fmt::format("min_tokens: {} is negative", params.min_tokens));
  return {};
}

Status check_ids(const SamplingParams& params, int32_t vocab_size) {
  for (const auto& [id, bias] : params.logit_bias) {
    QUERN_TRY(check_id("logit_bias", id, vocab_size));
    if (!std::isfinite(bias))
      return invalid_argument(fmt::format("logit_bias: {} for token {} is not finite", bias, id));
  }
  if (params.allowed_token_ids) {
    if (params.allowed_token_ids->empty()) return invalid_argument("allowed_token_ids: no token is allowed");
    for (int32_t id : *params.allowed_token_ids) QUERN_TRY(check_id("allowed_token_ids", id, vocab_size));
  }
  for (const auto& word : params.bad_words) {
    if (word.empty()) return invalid_argument("bad_words: an empty word is in every text");
    for (int32_t id : word) QUERN_TRY(check_id("bad_words", id, vocab_size));
  }
  for (int32_t id : params.end_ids) QUERN_TRY(check_id("end_ids", id, vocab_size));
  return {};
}

}  // namespace

Status validate(const SamplingParams& params, int32_t vocab_size) {
  QUERN_TRY(check_ranges(params));
  return check_ids(params, vocab_size);
}

const std::vector<SamplerStep>& default_sampler_order() {
  using enum SamplerStep;
  static const std::vector<SamplerStep> order{kPenalties, kDry,  kTemperature, kTopNSigma, kTopK,
                                              kTypicalP,  kTopP, kMinP,        kXtc};
  return order;
}

Result<std::vector<SamplerStep>> parse_sampler_order(const std::vector<std::string>& names) {
  using enum SamplerStep;
  static constexpr std::pair<std::string_view, SamplerStep> kNames[] = {
      {"penalties", kPenalties}, {"dry", kDry},        {"temperature", kTemperature}, {"top_n_sigma", kTopNSigma},
      {"top_k", kTopK},          {"typ_p", kTypicalP}, {"typical_p", kTypicalP},      {"top_p", kTopP},
      {"min_p", kMinP},          {"xtc", kXtc}};
  std::vector<SamplerStep> order;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(kNames, name, &std::pair<std::string_view, SamplerStep>::first);
    if (found == std::end(kNames)) {
      return invalid_argument(
          fmt::format("samplers: '{}' is not one of penalties, dry, temperature, top_n_sigma, "
                      "top_k, typ_p, top_p, min_p, xtc",
                      name));
    }
    if (std::ranges::find(order, found->second) != order.end()) {
      return invalid_argument(fmt::format("samplers: '{}' is there twice", name));
    }
    order.push_back(found->second);
  }
  return order;
}

}  // namespace quern
