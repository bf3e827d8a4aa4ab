// The tokens that truncation leaves, found without sorting the vocabulary. Each filter works on what the one before
// left, renormalised, and keeps at least one token. Which tokens stay is unique: of equal ones the lower id goes first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

struct Candidate {
  int32_t id = 0;
  float weight = 0;  // not normalised; > 0 except after select_top_k, where a far logit may have underflowed
  double order = 0;  // scratch of the filters: smaller is kept first
};

// The k largest logits (fewer when NaN and -inf leave fewer), by ascending id; weight = the logit itself. O(vocab).
void select_top_k(std::span<const float> logits, int32_t k, std::vector<Candidate>& out);

// The tokens whose weight is > 0 and >= threshold, by ascending id.
void select_above(std::span<const float> weights, float threshold, std::vector<Candidate>& out);

// The tokens whose logit is >= threshold and no NaN, by ascending id; weight = the logit itself.
void select_above_logit(std::span<const float> logits, float threshold, std::vector<Candidate>& out);

double total_weight(std::span<const Candidate> candidates);

// Locally typical sampling (Meister et al. 2023): smallest set of mass >= p, by distance of the surprise from the
// entropy.
void keep_typical(std::vector<Candidate>& candidates, double p);
// Nucleus sampling (Holtzman et al. 2020): smallest set of most probable tokens of mass >= p * total. `total` is the
// mass of the whole distribution, of which `candidates` may already lack some improbable tokens.
void keep_top_p(std::vector<Candidate>& candidates, double p, double total);
// Min-p (Nguyen et al. 2024): tokens at least min_p times as probable as the most probable one.
void keep_min_p(std::vector<Candidate>& candidates, float min_p);

// As SoftmaxWeights::draw: the candidate at which the running sum first exceeds uniform * total.
int32_t draw_candidate(std::span<const Candidate> candidates, double uniform);

}  // namespace quern
