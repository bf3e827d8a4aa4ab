// Rotary position embeddings (RoFormer, arXiv 2104.09864) and the ways to stretch them: cosines and sines per token.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model_config.h"

namespace quern {

class RopeTable {
 public:
  explicit RopeTable(const RopeConfig& config);

  int32_t half() const { return config_.rotary_dim / 2; }

  // Writes cosines and sines [half] of one token. `length`: tokens of the sequence as far as this token's scaling knows
  // of them, max(prompt, position + 1): dynamic and longrope depend on it. Angles are float32 products of frequency and
  // position, as the models were trained.
  void fill(int32_t position, int32_t length, float* cosine, float* sine) const;

 private:
  void fill_dynamic_frequencies(int32_t length, float* frequencies) const;

  RopeConfig config_;
  std::vector<float> short_;  // [half] frequencies
  std::vector<float> long_;   // [half] longrope beyond original_context
};

// Attention factor of YaRN (arXiv 2309.00071, section 3.4): 0.1 m ln(factor) + 1.
float yarn_mscale(float factor, float m);

}  // namespace quern
