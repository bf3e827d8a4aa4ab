// What each door takes of the sampling parameters that are fractions: a value means the same on the command line and in
// a request. The engine alone takes any finite one of some.
#pragma once

#include <limits>
#include <string_view>

#include "quern/engine.h"

namespace quern {

struct SamplingBound {
  std::string_view field;
  float SamplingOptions::* value;
  float low, high;  // both included
};

inline constexpr float kAboveZero = std::numeric_limits<float>::min();  // as a `low`
inline constexpr SamplingBound kSamplingBounds[] = {
    {"temperature", &SamplingOptions::temperature, 0, 100},
    {"top_p", &SamplingOptions::top_p, kAboveZero, 1},
    {"min_p", &SamplingOptions::min_p, 0, 1},
    {"typical_p", &SamplingOptions::typical_p, kAboveZero, 1},
    {"repetition_penalty", &SamplingOptions::repetition_penalty, kAboveZero, 100},
    {"presence_penalty", &SamplingOptions::presence_penalty, -2, 2},
    {"frequency_penalty", &SamplingOptions::frequency_penalty, -2, 2},
    {"top_n_sigma", &SamplingOptions::top_n_sigma, -1, 100},
    {"xtc_probability", &SamplingOptions::xtc_probability, 0, 1},
    {"xtc_threshold", &SamplingOptions::xtc_threshold, 0, 1},
    {"dry_multiplier", &SamplingOptions::dry_multiplier, 0, 1e6f},
    {"dry_base", &SamplingOptions::dry_base, 0, 1e6f},
    {"mirostat_tau", &SamplingOptions::mirostat_tau, 0, 1000},
    {"mirostat_eta", &SamplingOptions::mirostat_eta, 0, 1000},
};

}  // namespace quern
