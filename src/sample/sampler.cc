#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "sample/candidates.h"
#include "sample/softmax.h"

namespace quern {
namespace {

constexpr float kTemperatureMin = 1e-5f;  // below: greedy
constexpr float kLargest = std::numeric_limits<float>::max();

class SamplerImpl final : public Sampler {
 public:
  SamplerImpl(const SamplingParams& params, int32_t vocab_size)
      : params_(params), vocab_size_(static_cast<size_t>(vocab_size)) {
    if (has_penalties()) counts_.assign(vocab_size_, kUnseen);
  }

  Result<SampledToken> sample(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output,
                              int64_t position) override {
    QUERN_CHECK(logits.size() == vocab_size_ && position >= 0);
    float max = max_logit(logits);
    if (max == -std::numeric_limits<float>::infinity()) {
      return make_error(ErrorCode::kInternal, fmt::format("no finite logit at position {}", position));
    }
    if (max > kLargest) {
      for (float& logit : logits) logit = logit > kLargest ? kLargest : logit;
      max = kLargest;
    }
    weights_.compute(logits, max, 1.0f);
    const double log_normalizer = static_cast<double>(max) + std::log(weights_.total());

    edits_.clear();
    if (!params_.logit_bias.empty()) add_bias(logits);
    if (has_penalties()) penalize(logits, prompt, output);
    if (!edits_.empty()) max = max_logit(logits);

    const int32_t id = params_.temperature < kTemperatureMin ? first_index_of(logits, max)
                                                             : draw(logits, max, static_cast<uint64_t>(position));
    return SampledToken{.id = id, .logprob = static_cast<float>(static_cast<double>(raw(logits, id)) - log_normalizer)};
  }

 private:
  static constexpr int32_t kUnseen = -1;
  struct Edit {
    int32_t id;
    float raw;
  };

  bool has_penalties() const {
    return params_.repetition_penalty != 1.0f || params_.presence_penalty != 0.0f || params_.frequency_penalty != 0.0f;
  }

  // A masked logit (-inf, NaN) stays masked; a finite one stays finite whatever is added to it.
  void edit(std::span<float> logits, int32_t id, float value) {
    float& logit = logits[static_cast<size_t>(id)];
    if (!std::isfinite(logit)) return;
    edits_.push_back({id, logit});
    logit = std::clamp(value, -kLargest, kLargest);
  }

  void add_bias(std::span<float> logits) {
    for (const auto& [id, bias] : params_.logit_bias) edit(logits, id, logits[static_cast<size_t>(id)] + bias);
  }

  void penalize(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output) {
    seen_.clear();
    if (params_.repetition_penalty != 1.0f) {
      for (int32_t id : prompt) count(id, 0);
    }
    for (int32_t id : output) count(id, 1);
    for (int32_t id : seen_) {
      const int32_t times = counts_[static_cast<size_t>(id)];
      counts_[static_cast<size_t>(id)] = kUnseen;
      float logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
      logit -= params_.frequency_penalty * static_cast<float>(times);
      if (times > 0) logit -= params_.presence_penalty;
      edit(logits, id, logit);
    }
  }

  void count(int32_t id, int32_t times) {
    QUERN_CHECK(id >= 0 && static_cast<size_t>(id) < vocab_size_);
    int32_t& counter = counts_[static_cast<size_t>(id)];
    if (counter == kUnseen) {
      counter = 0;
      seen_.push_back(id);
    }
    counter += times;
  }

  // The logit before any edit: the first edit of an id remembers it.
  float raw(std::span<const float> logits, int32_t id) const {
    const auto first = std::ranges::find(edits_, id, &Edit::id);
    return first == edits_.end() ? logits[static_cast<size_t>(id)] : first->raw;
  }

  int32_t draw(std::span<const float> logits, float max, uint64_t position) {
    const double uniform = uniform_at(params_.seed, position);
    const float scale = 1.0f / params_.temperature;
    const bool typical = params_.typical_p < 1.0f;
    const bool top_k = params_.top_k > 0 && static_cast<size_t>(params_.top_k) < vocab_size_;
    double total = 0;
    if (top_k) {
      select_top_k(logits, params_.top_k, candidates_);
      weigh_candidates(max, scale);
      total = total_weight(candidates_);
    } else {
      // The weights at hand are those of the raw logits: still right when nothing was edited or scaled.
      if (!edits_.empty() || scale != 1.0f) weights_.compute(logits, max, scale);
      if (!typical && params_.top_p >= 1.0f && params_.min_p <= 0.0f) return weights_.draw(uniform);
      total = weights_.total();
      select_above(weights_.weights(), selection_threshold(total, typical), candidates_);
    }
    if (typical) {
      keep_typical(candidates_, static_cast<double>(params_.typical_p));
      total = total_weight(candidates_);
    }
    if (params_.top_p < 1.0f) keep_top_p(candidates_, static_cast<double>(params_.top_p), total);
    if (params_.min_p > 0.0f) keep_min_p(candidates_, params_.min_p);
    return draw_candidate(candidates_, uniform);
  }

  // Weights below this cannot be among the tokens kept: all of them together have less than the mass top_p may drop.
  float selection_threshold(double total, bool typical) const {
    if (typical) return 0.0f;
    if (params_.top_p >= 1.0f) return params_.min_p;
    const double droppable = (1.0 - static_cast<double>(params_.top_p)) * total;
    return static_cast<float>(0.5 * droppable / static_cast<double>(vocab_size_));
  }

  void weigh_candidates(float max, float scale) {
    scores_.clear();
    for (const Candidate& candidate : candidates_) scores_.push_back(candidate.weight);
    weights_.compute(scores_, max, scale);
    for (size_t i = 0; i < candidates_.size(); ++i) candidates_[i].weight = weights_.weights()[i];
  }

  const SamplingParams params_;
  const size_t vocab_size_;
  // Scratch, kept from call to call so that a step allocates nothing.
  SoftmaxWeights weights_;
  std::vector<Candidate> candidates_;
  std::vector<float> scores_;
  std::vector<Edit> edits_;
  std::vector<int32_t> counts_;  // [vocab] times in the output, kUnseen outside penalize()
  std::vector<int32_t> seen_;
};

}  // namespace

std::unique_ptr<Sampler> make_sampler(const SamplingParams& params, int32_t vocab_size) {
  QUERN_CHECK(vocab_size > 0 && validate(params, vocab_size));
  return std::make_unique<SamplerImpl>(params, vocab_size);
}

}  // namespace quern
