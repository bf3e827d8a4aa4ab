#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "engine/sequence_runner.h"
#include "sample/softmax.h"

namespace quern {

namespace {

// log-softmax of a row.
struct LogProbabilities {
  std::span<const float> logits;
  SoftmaxWeights softmax;
  float max = 0;
  double log_normalizer = 0;

  Status compute(std::span<const float> row) {
    logits = row;
    max = max_logit(row);
    if (!std::isfinite(max)) return make_error(ErrorCode::kInternal, "the model's logits are not finite");
    softmax.compute(row, max, 1.0f);
    log_normalizer = static_cast<double>(max) + std::log(softmax.total());
    return {};
  }
  double at(size_t id) const { return static_cast<double>(logits[id]) - log_normalizer; }
  double probability(size_t id) const { return static_cast<double>(softmax.weights()[id]) / softmax.total(); }
};

double divergence(const LogProbabilities& from, const LogProbabilities& to) {
  double sum = 0;
  for (size_t id = 0; id < from.logits.size(); ++id) {
    if (const double p = from.probability(id); p > 0) sum += p * (from.at(id) - to.at(id));
  }
  return sum;
}

// A model over one window.
struct Lane {
  Runner* runner;
  SequenceRunner sequences;
  LogProbabilities row;

  static Result<Lane> create(Runner& runner, int32_t context) {
    QUERN_ASSIGN(auto sequences, SequenceRunner::create(runner, {.num_sequences = 1, .tokens_max = context}));
    return Lane{.runner = &runner, .sequences = std::move(sequences)};
  }
  Status begin(std::span<const int32_t> context) {
    sequences.truncate(0, 0);
    return sequences.append_chunked(0, context, LogitsRows::kNone, [](int32_t, std::span<float>) { return Status{}; });
  }
  Result<std::span<float>> score(std::span<const int32_t> ids, int32_t prompt_tokens) {
    const SequenceRunner::Append part{.ids = ids, .rows = LogitsRows::kAll, .prompt_tokens = prompt_tokens};
    return sequences.append(std::span(&part, 1));
  }
  int32_t rows_max() const {
    return std::min(runner->options().max_num_batched_tokens, runner->options().max_logits_rows);
  }
};

class Measurement {
 public:
  Measurement(Lane model, std::optional<Lane> reference) : model_(std::move(model)), reference_(std::move(reference)) {}

  Status add_window(std::span<const int32_t> window) {
    const size_t first = window.size() / 2;
    QUERN_TRY(model_.begin(window.first(first)));
    if (reference_) QUERN_TRY(reference_->begin(window.first(first)));
    const int32_t rows_max = std::min(model_.rows_max(), reference_ ? reference_->rows_max() : model_.rows_max());
    // The last token has no successor to predict.
    const size_t end = window.size() - 1;
    for (size_t begin = first; begin < end; begin += static_cast<size_t>(rows_max)) {
      const size_t count = std::min(static_cast<size_t>(rows_max), end - begin);
      QUERN_TRY(add_rows(window.subspan(begin, count), window.subspan(begin + 1, count),
                         static_cast<int32_t>(window.size())));
    }
    ++chunks_;
    return {};
  }

  PerplexityResult result() const {
    PerplexityResult result{.tokens = tokens_, .chunks = chunks_};
    const double count = static_cast<double>(tokens_);
    result.nll = nll_ / count;
    const double variance = nll_squared_ / count - result.nll * result.nll;
    if (tokens_ > 1 && variance > 0) result.standard_error = std::sqrt(variance / (count - 1));
    if (reference_) {
      result.divergence = Divergence{.mean = divergence_ / count,
                                     .max = divergence_max_,
                                     .top1_agreement = static_cast<double>(agreements_) / count};
    }
    return result;
  }

 private:
  Status add_rows(std::span<const int32_t> ids, std::span<const int32_t> next, int32_t prompt_tokens) {
    QUERN_ASSIGN(const auto logits, model_.score(ids, prompt_tokens));
    std::span<float> reference;
    if (reference_) {
      QUERN_ASSIGN(reference, reference_->score(ids, prompt_tokens));
    }
    const size_t vocab = logits.size() / ids.size();
    for (size_t i = 0; i < ids.size(); ++i) {
      QUERN_TRY(model_.row.compute(logits.subspan(i * vocab, vocab)));
      if (next[i] < 0 || static_cast<size_t>(next[i]) >= vocab) {
        return invalid_argument(fmt::format("token id {} is outside the vocabulary of {}", next[i], vocab));
      }
      const double nll = -model_.row.at(static_cast<size_t>(next[i]));
      nll_ += nll;
      nll_squared_ += nll * nll;
      ++tokens_;
      if (reference_) QUERN_TRY(compare(reference.subspan(i * vocab, vocab)));
    }
    return {};
  }

  Status compare(std::span<const float> reference_logits) {
    LogProbabilities& reference = reference_->row;
    QUERN_TRY(reference.compute(reference_logits));
    const double kl = divergence(reference, model_.row);
    divergence_ += kl;
    divergence_max_ = std::max(divergence_max_, kl);
    agreements_ += peak_of(reference.logits).index == peak_of(model_.row.logits).index;
    return {};
  }

  Lane model_;
  std::optional<Lane> reference_;
  double nll_ = 0, nll_squared_ = 0, divergence_ = 0, divergence_max_ = 0;
  int64_t tokens_ = 0, agreements_ = 0;
  int32_t chunks_ = 0;
};

}  // namespace

double PerplexityResult::perplexity() const {
  return std::exp(nll);
}

Result<PerplexityResult> measure_perplexity(Runner& runner, Runner* reference, std::span<const int32_t> ids,
                                            const PerplexityOptions& options, const OnPerplexity& on_chunk) {
  if (options.context < 4) return invalid_argument(fmt::format("ctx: {} is less than 4", options.context));
  const size_t context = static_cast<size_t>(options.context);
  if (ids.size() < context) {
    return invalid_argument(
        fmt::format("ctx: the text has {} tokens, fewer than one window of {}", ids.size(), context));
  }
  QUERN_ASSIGN(auto model_lane, Lane::create(runner, options.context));
  std::optional<Lane> reference_lane;
  if (reference != nullptr) {
    QUERN_CHECK(reference->config().vocab_size == runner.config().vocab_size);
    QUERN_ASSIGN(reference_lane, Lane::create(*reference, options.context));
  }
  Measurement measurement(std::move(model_lane), std::move(reference_lane));
  auto chunks = static_cast<int32_t>(std::min<size_t>(ids.size() / context, INT32_MAX));
  if (options.chunks_max > 0) chunks = std::min(chunks, options.chunks_max);
  std::vector<int32_t> window(context);
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    std::ranges::copy(ids.subspan(static_cast<size_t>(chunk) * context, context), window.begin());
    if (options.bos_id) window[0] = *options.bos_id;
    QUERN_TRY(measurement.add_window(window));
    if (on_chunk) on_chunk(measurement.result(), chunks);
  }
  return measurement.result();
}

}  // namespace quern
