// An engine whose requests are observed on their way to the reader.
#include <chrono>

#include "server/metrics/metrics.h"

namespace quern {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class ObservedStream final : public EventStream {
 public:
  ObservedStream(std::unique_ptr<EventStream> stream, GenerationMetrics& metrics, int32_t n)
      : stream_(std::move(stream)), metrics_(metrics), last_token_(static_cast<size_t>(n)) {}
  ~ObservedStream() override {
    if (!counted_) count(Outcome::kAbort);
  }

  std::optional<Event> next() override { return observed(stream_->next()); }
  std::optional<Event> try_next() override { return observed(stream_->try_next()); }
  void cancel() override { stream_->cancel(); }
  void on_ready(std::function<void()> callback, size_t events_min) override {
    stream_->on_ready(std::move(callback), events_min);
  }
  bool finished() const override { return stream_->finished(); }

 private:
  std::optional<Event> observed(std::optional<Event> event) {
    if (event && event->token) see_token(event->token->index, event->time);
    if (event && event->finish) see_finish(*event->finish);
    return event;
  }

  void see_token(int32_t index, Clock::time_point now) {
    auto& last = last_token_[static_cast<size_t>(index)];
    if (last) {
      metrics_.inter_token_seconds.observe(std::chrono::duration<double>(now - *last).count());
    } else if (!any_token_) {
      metrics_.first_token_seconds.observe(std::chrono::duration<double>(now - arrival_).count());
    }
    any_token_ = true;
    last = now;
  }

  void see_finish(const FinishEvent& finish) {
    if (outcome_ == Outcome::kStop && finish.reason != FinishReason::kStop) {
      outcome_ = finish.reason == FinishReason::kLength  ? Outcome::kLength
                 : finish.reason == FinishReason::kError ? Outcome::kError
                                                         : Outcome::kAbort;
    }
    output_tokens_ += finish.output_tokens;
    if (finish.output_tokens > 1) {
      metrics_.output_token_seconds.observe(finish.decode_seconds / (finish.output_tokens - 1));
    }
    if (!stream_->finished()) return;
    metrics_.e2e_seconds.observe(seconds_since(arrival_));
    metrics_.queue_seconds.observe(finish.queue_seconds);
    metrics_.prefill_seconds.observe(finish.prefill_seconds);
    metrics_.decode_seconds.observe(finish.decode_seconds);
    metrics_.inference_seconds.observe(finish.prefill_seconds + finish.decode_seconds);
    metrics_.prompt_tokens.observe(finish.prompt_tokens);
    metrics_.generation_tokens.observe(static_cast<double>(output_tokens_));
    count(outcome_);
  }

  void count(Outcome outcome) {
    counted_ = true;
    metrics_.outcomes[static_cast<size_t>(outcome)].fetch_add(1);
  }

  std::unique_ptr<EventStream> stream_;
  GenerationMetrics& metrics_;
  const Clock::time_point arrival_ = Clock::now();
  std::vector<std::optional<Clock::time_point>> last_token_;  // per answer
  int64_t output_tokens_ = 0;
  bool any_token_ = false;
  bool counted_ = false;
  Outcome outcome_ = Outcome::kStop;  // the first that is another reason wins
};

class ObservedEngine final : public Engine {
 public:
  ObservedEngine(std::unique_ptr<Engine> engine, GenerationMetrics& metrics)
      : engine_(std::move(engine)), metrics_(metrics) {}

  Result<std::unique_ptr<EventStream>> submit(Request request) override {
    const int32_t n = request.n, max_tokens = request.max_tokens;
    auto stream = engine_->submit(std::move(request));
    if (!stream) return stream;
    metrics_.answers.observe(n);
    if (max_tokens > 0) metrics_.max_tokens.observe(max_tokens);
    return std::make_unique<ObservedStream>(std::move(*stream), metrics_, n);
  }
  Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSpec& spec) override {
    return engine_->compile_grammar(spec);
  }
  Adapters& adapters() override { return engine_->adapters(); }
  int32_t vocab_size() const override { return engine_->vocab_size(); }
  int32_t max_model_len() const override { return engine_->max_model_len(); }
  EngineStats stats() const override { return engine_->stats(); }

 private:
  std::unique_ptr<Engine> engine_;
  GenerationMetrics& metrics_;
};

}  // namespace

std::unique_ptr<Engine> Metrics::observe(std::unique_ptr<Engine> engine, const std::string& model_id) {
  auto& metrics = generation_[model_id];
  if (!metrics) metrics = std::make_unique<GenerationMetrics>();
  return std::make_unique<ObservedEngine>(std::move(engine), *metrics);
}

}  // namespace quern
