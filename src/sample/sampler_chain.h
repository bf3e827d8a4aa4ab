// The tokens that can still be drawn, on their way from logits to a draw: first the whole vocabulary, then, once
// something was cut off, a list. Never sorts the vocabulary. Scratch is kept from draw to draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/candidates.h"
#include "sample/sampler.h"
#include "sample/softmax.h"

namespace quern {

class SamplerChain {
 public:
  // `logits` must outlive the draw; max: the largest of them, finite. raw_weights: weights of exactly these logits that
  // are at hand, or null.
  void begin(std::span<float> logits, float max, SoftmaxWeights& weights, bool weights_are_current);

  void set_temperature(float temperature);
  float scale() const { return scale_; }  // what logits are multiplied by so far
  void top_k(int32_t k);
  void top_p(float p);
  void min_p(float p);
  void typical_p(float p);
  void top_n_sigma(float n);
  // Drops all but the least probable of the tokens of at least this probability.
  void exclude_top(float threshold);
  // Somebody changed logits: the list reads them anew.
  void refresh(float max);

  int32_t draw(double uniform);

  // Mirostat (Basu et al. 2021): draws among tokens of at most `mu` bits of surprise (2), or among as many as the
  // estimated Zipf exponent says (1), and moves mu.
  int32_t draw_mirostat_1(double uniform, float tau, float eta, float& mu);
  int32_t draw_mirostat_2(double uniform, float tau, float eta, float& mu);

 private:
  void weigh();  // makes weights those of logits and scale
  double total() const;
  void cut_to_list(float weight_min);
  int32_t draw_observed(double uniform, float tau, float eta, float& mu);

  std::span<float> logits_;
  float max_ = 0;
  float scale_ = 1;
  SoftmaxWeights* weights_ = nullptr;  // of the whole vocabulary while there is no list
  SoftmaxWeights list_weights_;
  std::vector<Candidate> list_;
  std::vector<float> scores_;
  bool listed_ = false;
  bool weighed_ = false;
};

}  // namespace quern
