#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "sample/sampler_chain.h"
#include "sample/softmax.h"

namespace quern {
namespace {

constexpr float kTemperatureMin = 1e-5f;  // below: greedy
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr uint32_t kXtcStream = 1;  // of random numbers, beside the draw's own

class SamplerImpl final : public Sampler {
 public:
  SamplerImpl(const SamplingParams& params, int32_t vocab_size)
      : params_(params),
        vocab_size_(static_cast<size_t>(vocab_size)),
        dry_(params.dry),
        mirostat_mu_(2 * params.mirostat_tau) {
    if (has_penalties()) counts_.assign(vocab_size_, kUnseen);
  }

  Result<SampledToken> sample(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output,
                              int64_t position, const LogitsMask& outer_mask) override {
    QUERN_CHECK(logits.size() == vocab_size_ && position >= 0);
    Peak peak = peak_of(logits);
    if (peak.value == kMasked) {
      return make_error(ErrorCode::kInternal, fmt::format("no finite logit at position {}", position));
    }
    if (peak.value > kLargest) {
      for (float& logit : logits) logit = logit > kLargest ? kLargest : logit;
      peak = peak_of(logits);
    }
    float max = peak.value;
    double log_normalizer = 0;
    if (params_.logprob) {
      weights_.compute(logits, max, 1.0f);
      log_normalizer = static_cast<double>(max) + std::log(weights_.total());
    }

    edits_.clear();
    const History history{prompt, output};
    if (outer_mask) QUERN_TRY(outer_mask(logits));
    const bool masked = mask(logits, output) || outer_mask;
    for (const auto& [id, bias] : params_.logit_bias) edit(logits, id, logits[static_cast<size_t>(id)] + bias);
    const bool edited = masked || !edits_.empty();
    if (edited) max = max_logit(logits);
    if (max == kMasked) {
      return invalid_argument(fmt::format(
          "no token is allowed at position {}: grammar, allowed_token_ids, bad_words and min_tokens leave none",
          position));
    }
    if (is_plain_greedy() && !edited) return token(logits, peak.index, log_normalizer);
    chain_.begin(logits, max, weights_, params_.logprob && !edited);
    const int32_t id = params_.temperature < kTemperatureMin ? most_likely(logits, history)
                                                             : draw(logits, history, static_cast<uint64_t>(position));
    return token(logits, id, log_normalizer);
  }

 private:
  static constexpr int32_t kUnseen = -1;
  struct Edit {
    int32_t id;
    float raw;
  };
  struct History {
    std::span<const int32_t> prompt, output;
  };

  bool is_plain_greedy() const {
    return params_.temperature < kTemperatureMin && !has_penalties() && !params_.dry.enabled();
  }

  SampledToken token(std::span<const float> logits, int32_t id, double log_normalizer) const {
    SampledToken token{.id = id};
    if (params_.logprob) token.logprob = static_cast<float>(static_cast<double>(raw(logits, id)) - log_normalizer);
    return token;
  }

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

  // Takes tokens out of the draw. What is masked is never drawn, so nobody asks for its raw logit.
  bool mask(std::span<float> logits, std::span<const int32_t> output) {
    bool masked = false;
    const auto take_out = [&](int32_t id) {
      logits[static_cast<size_t>(id)] = kMasked;
      masked = true;
    };
    if (params_.allowed_token_ids) {
      allowed_.clear();
      for (int32_t id : *params_.allowed_token_ids) allowed_.emplace_back(id, logits[static_cast<size_t>(id)]);
      std::ranges::fill(logits, kMasked);
      for (const auto& [id, logit] : allowed_) logits[static_cast<size_t>(id)] = logit;
      masked = true;
    }
    if (output.size() < static_cast<size_t>(params_.min_tokens)) {
      for (int32_t id : params_.end_ids) take_out(id);
    }
    for (const auto& word : params_.bad_words) {
      const size_t before = word.size() - 1;
      if (output.size() >= before && std::equal(word.begin(), word.end() - 1, output.end() - ptrdiff_t(before))) {
        take_out(word.back());
      }
    }
    return masked;
  }

  // Penalties count in units of the logits as they are scaled so far.
  void penalize(std::span<float> logits, const History& history) {
    seen_.clear();
    if (params_.repetition_penalty != 1.0f) {
      for (int32_t id : history.prompt) count(id, 0);
    }
    for (int32_t id : history.output) count(id, 1);
    for (int32_t id : seen_) {
      const int32_t times = counts_[static_cast<size_t>(id)];
      counts_[static_cast<size_t>(id)] = kUnseen;
      float logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
      float loss = params_.frequency_penalty * static_cast<float>(times);
      if (times > 0) loss += params_.presence_penalty;
      edit(logits, id, logit - loss / chain_.scale());
    }
    if (!seen_.empty()) chain_.refresh(max_logit(logits));
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

  void discourage_repetition(std::span<float> logits, const History& history) {
    const auto losses = dry_.compute(history.prompt, history.output);
    for (const auto& [id, loss] : losses) edit(logits, id, logits[static_cast<size_t>(id)] - loss / chain_.scale());
    if (!losses.empty()) chain_.refresh(max_logit(logits));
  }

  // The logit before any edit: the first edit of an id remembers it.
  float raw(std::span<const float> logits, int32_t id) const {
    const auto first = std::ranges::find(edits_, id, &Edit::id);
    return first == edits_.end() ? logits[static_cast<size_t>(id)] : first->raw;
  }

  int32_t most_likely(std::span<float> logits, const History& history) {
    for (const SamplerStep step : params_.order) {
      if (step == SamplerStep::kPenalties && has_penalties()) penalize(logits, history);
      if (step == SamplerStep::kDry) discourage_repetition(logits, history);
    }
    return peak_of(logits).index;
  }

  void apply(SamplerStep step, std::span<float> logits, const History& history, uint64_t position) {
    switch (step) {
      case SamplerStep::kPenalties:
        if (has_penalties()) penalize(logits, history);
        break;
      case SamplerStep::kDry: discourage_repetition(logits, history); break;
      case SamplerStep::kTemperature: chain_.set_temperature(params_.temperature); break;
      case SamplerStep::kTopNSigma: chain_.top_n_sigma(params_.top_n_sigma); break;
      case SamplerStep::kTopK: chain_.top_k(params_.top_k); break;
      case SamplerStep::kTypicalP: chain_.typical_p(params_.typical_p); break;
      case SamplerStep::kTopP: chain_.top_p(params_.top_p); break;
      case SamplerStep::kMinP: chain_.min_p(params_.min_p); break;
      case SamplerStep::kXtc:
        if (uniform_at(params_.seed, position, kXtcStream) < static_cast<double>(params_.xtc_probability)) {
          chain_.exclude_top(params_.xtc_threshold);
        }
        break;
    }
  }

  static bool truncates(SamplerStep step) {
    return step != SamplerStep::kPenalties && step != SamplerStep::kDry && step != SamplerStep::kTemperature;
  }

  int32_t draw(std::span<float> logits, const History& history, uint64_t position) {
    const double uniform = uniform_at(params_.seed, position);
    for (const SamplerStep step : params_.order) {
      if (params_.mirostat == 0 || !truncates(step)) apply(step, logits, history, position);
    }
    if (params_.mirostat == 0) return chain_.draw(uniform);
    const float tau = params_.mirostat_tau, eta = params_.mirostat_eta;
    return params_.mirostat == 1 ? chain_.draw_mirostat_1(uniform, tau, eta, mirostat_mu_)
                                 : chain_.draw_mirostat_2(uniform, tau, eta, mirostat_mu_);
  }

  const SamplingParams params_;
  const size_t vocab_size_;
  DryPenalty dry_;
  float mirostat_mu_;  // bits of surprise allowed next
  // Scratch, kept from call to call so that a step allocates nothing.
  SoftmaxWeights weights_;
  SamplerChain chain_;
  std::vector<Edit> edits_;
  std::vector<std::pair<int32_t, float>> allowed_;
  std::vector<int32_t> counts_;  // [vocab] times in the output, kUnseen outside penalize()
  std::vector<int32_t> seen_;
};

}  // namespace

std::unique_ptr<Sampler> make_sampler(const SamplingParams& params, int32_t vocab_size) {
  QUERN_CHECK(vocab_size > 0 && validate(params, vocab_size));
  return std::make_unique<SamplerImpl>(params, vocab_size);
}

}  // namespace quern
