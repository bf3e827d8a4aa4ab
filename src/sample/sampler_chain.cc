#include "sample/sampler_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quern {
namespace {

struct Spread {
  double mean = 0;
  double deviation = 0;
};
// Of the finite values; sums have eight lanes, so that compilers make vector code of them.
template <class Get>
Spread spread_of(size_t count, Get get) {
  double sums[8] = {}, squares[8] = {};
  int64_t finite = 0;
  const auto add = [&](size_t i, size_t lane) {
    const double value = static_cast<double>(get(i));
    const bool is_finite = std::isfinite(value);
    sums[lane] += is_finite ? value : 0.0;
    finite += is_finite;
  };
  for (size_t i = 0; i < count; ++i) add(i, i % 8);
  Spread spread;
  if (finite == 0) return spread;
  for (double sum : sums) spread.mean += sum;
  spread.mean /= static_cast<double>(finite);
  for (size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(get(i));
    const double difference = std::isfinite(value) ? value - spread.mean : 0.0;
    squares[i % 8] += difference * difference;
  }
  double square = 0;
  for (double part : squares) square += part;
  spread.deviation = std::sqrt(square / static_cast<double>(finite));
  return spread;
}

}  // namespace

void SamplerChain::begin(std::span<float> logits, float max, SoftmaxWeights& weights, bool weights_are_current) {
  logits_ = logits;
  max_ = max;
  scale_ = 1;
  weights_ = &weights;
  listed_ = false;
  weighed_ = weights_are_current;
}

void SamplerChain::refresh(float max) {
  max_ = max;
  weighed_ = false;
}

void SamplerChain::set_temperature(float temperature) {
  if (temperature == 1.0f) return;
  scale_ *= 1.0f / temperature;
  weighed_ = false;
}

void SamplerChain::weigh() {
  if (weighed_) return;
  weighed_ = true;
  if (!listed_) return weights_->compute(logits_, max_, scale_);
  scores_.clear();
  for (const Candidate& candidate : list_) scores_.push_back(logits_[static_cast<size_t>(candidate.id)]);
  list_weights_.compute(scores_, max_, scale_);
  for (size_t i = 0; i < list_.size(); ++i) list_[i].weight = list_weights_.weights()[i];
}

double SamplerChain::total() const {
  return listed_ ? total_weight(list_) : weights_->total();
}

// The list of tokens of at least this weight; whoever asks knows that lighter ones will be cut off anyway.
void SamplerChain::cut_to_list(float weight_min) {
  if (listed_) return;
  select_above(weights_->weights(), weight_min, list_);
  listed_ = true;
}

void SamplerChain::top_k(int32_t k) {
  const size_t size = listed_ ? list_.size() : logits_.size();
  if (k <= 0 || static_cast<size_t>(k) >= size) return;
  if (!listed_) {
    select_top_k(logits_, k, list_);
    listed_ = true;
    weighed_ = false;
    return;
  }
  scores_.clear();
  for (const Candidate& candidate : list_) scores_.push_back(logits_[static_cast<size_t>(candidate.id)]);
  std::vector<Candidate> kept;
  select_top_k(scores_, k, kept);
  for (Candidate& candidate : kept) candidate = list_[static_cast<size_t>(candidate.id)];
  list_ = std::move(kept);
}

void SamplerChain::top_p(float p) {
  if (p >= 1.0f) return;
  weigh();
  const double mass = total();
  // Tokens lighter than this cannot be kept: all of them together weigh less than what may be dropped.
  const double droppable = (1.0 - static_cast<double>(p)) * mass;
  cut_to_list(static_cast<float>(0.5 * droppable / static_cast<double>(logits_.size())));
  keep_top_p(list_, static_cast<double>(p), mass);
}

void SamplerChain::min_p(float p) {
  if (p <= 0.0f) return;
  weigh();
  cut_to_list(p);  // the heaviest of the whole vocabulary weighs 1
  keep_min_p(list_, p);
}

void SamplerChain::typical_p(float p) {
  if (p >= 1.0f) return;
  weigh();
  cut_to_list(0.0f);
  keep_typical(list_, static_cast<double>(p));
}

void SamplerChain::top_n_sigma(float n) {
  if (n <= 0.0f) return;
  const auto listed_logit = [this](size_t i) { return logits_[static_cast<size_t>(list_[i].id)]; };
  const Spread spread = listed_ ? spread_of(list_.size(), listed_logit)
                                : spread_of(logits_.size(), [this](size_t i) { return logits_[i]; });
  const auto lowest = static_cast<float>(static_cast<double>(max_) - static_cast<double>(n) * spread.deviation);
  if (listed_) {
    std::erase_if(list_,
                  [&](const Candidate& candidate) { return logits_[static_cast<size_t>(candidate.id)] < lowest; });
    return;
  }
  select_above_logit(logits_, lowest, list_);
  listed_ = true;
  weighed_ = false;
}

void SamplerChain::exclude_top(float threshold) {
  weigh();
  const auto weight_min = static_cast<float>(static_cast<double>(threshold) * total());
  std::vector<Candidate> top;
  if (listed_) {
    for (const Candidate& candidate : list_) {
      if (candidate.weight >= weight_min && candidate.weight > 0) top.push_back(candidate);
    }
  } else {
    select_above(weights_->weights(), weight_min, top);
  }
  if (top.size() < 2) return;
  const auto least = std::ranges::min_element(top, [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
  });
  const int32_t kept = least->id;
  cut_to_list(0.0f);
  const auto is_dropped = [&](const Candidate& candidate) {
    return candidate.id != kept && candidate.weight >= weight_min;
  };
  std::erase_if(list_, is_dropped);
}

int32_t SamplerChain::draw(double uniform) {
  weigh();
  return listed_ ? draw_candidate(list_, uniform) : weights_->draw(uniform);
}

int32_t SamplerChain::draw_observed(double uniform, float tau, float eta, float& mu) {
  const int32_t id = draw_candidate(list_, uniform);
  const auto drawn = std::ranges::find(list_, id, &Candidate::id);
  const double probability = static_cast<double>(drawn->weight) / total_weight(list_);
  mu -= eta * static_cast<float>(-std::log2(probability) - static_cast<double>(tau));
  return id;
}

int32_t SamplerChain::draw_mirostat_2(double uniform, float tau, float eta, float& mu) {
  weigh();
  const double weight_min = total() * std::exp2(-static_cast<double>(mu));
  cut_to_list(static_cast<float>(std::min(1.0, weight_min)));
  const float heaviest = std::ranges::max_element(list_, {}, &Candidate::weight)->weight;
  std::erase_if(list_, [&](const Candidate& candidate) {
    return static_cast<double>(candidate.weight) < weight_min && candidate.weight < heaviest;
  });
  return draw_observed(uniform, tau, eta, mu);
}

int32_t SamplerChain::draw_mirostat_1(double uniform, float tau, float eta, float& mu) {
  constexpr int32_t kObserved = 100;  // most probable tokens that the exponent is estimated from
  top_k(kObserved);
  weigh();
  cut_to_list(0.0f);
  std::vector<double> weights;
  for (const Candidate& candidate : list_) {
    if (candidate.weight > 0) weights.push_back(static_cast<double>(candidate.weight));
  }
  std::ranges::sort(weights, std::greater());
  double sum_tb = 0, sum_tt = 0;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    sum_tb += t * std::log(weights[i] / weights[i + 1]);
    sum_tt += t * t;
  }
  double k = 1;
  if (sum_tb > 0) {
    const double exponent = sum_tb / sum_tt, epsilon = exponent - 1;
    const double size = static_cast<double>(logits_.size());
    k = std::pow(epsilon * std::exp2(static_cast<double>(mu)) / (1 - std::pow(size, -epsilon)), 1 / exponent);
  }
  listed_ = false;  // k may be larger than what was observed
  weighed_ = false;
  const double limit = static_cast<double>(logits_.size());
  top_k(std::isfinite(k) ? static_cast<int32_t>(std::clamp(k, 1.0, limit)) : 1);
  weigh();
  cut_to_list(0.0f);
  return draw_observed(uniform, tau, eta, mu);
}

}  // namespace quern
