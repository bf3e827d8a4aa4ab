// What the logits of a step mean: tokens are drawn, told to their readers, and answers end.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/core.h"
#include "engine/top_logprobs.h"

namespace quern {

namespace {

double seconds_between(EngineClock::time_point begin, EngineClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

FinishEvent finish_event(const Sequence& sequence, int32_t index, FinishReason reason, const Error* error) {
  FinishEvent event;
  event.index = index;
  event.reason = reason;
  event.prompt_tokens = sequence.prompt_tokens;
  event.output_tokens = index == sequence.index ? static_cast<int32_t>(sequence.output().size()) : 0;
  event.cached_tokens = sequence.cached_tokens;
  event.seed = sequence.valid->sampling.seed;
  const auto now = EngineClock::now();
  event.queue_seconds = seconds_between(sequence.valid->arrival, sequence.started ? sequence.first_scheduled : now);
  if (sequence.started) {
    const bool has_output = event.output_tokens > 0;
    event.prefill_seconds = seconds_between(sequence.first_scheduled, has_output ? sequence.first_token : now);
    if (has_output) event.decode_seconds = seconds_between(sequence.first_token, now);
  }
  if (error != nullptr) event.error = *error;
  return event;
}

}  // namespace

void EngineCore::apply(std::span<float> logits) {
  const size_t vocab_size = static_cast<size_t>(runner_.config().vocab_size);
  size_t row = 0;
  for (const Chunk& chunk : chunks_) {
    Sequence& sequence = *chunk.sequence;
    sequence.computed += chunk.tokens;
    if (options_.enable_prefix_caching) sequence.blocks.publish(sequence.tokens, sequence.computed);
    if (sequence.computed == sequence.target()) apply_row(sequence, logits.subspan(row++ * vocab_size, vocab_size));
  }
  QUERN_CHECK(row == logits_rows_.size());
}

void EngineCore::apply_row(Sequence& sequence, std::span<float> logits) {
  if (sequence.output().empty()) {
    sequence.first_token = EngineClock::now();
    if (sequence.index == 0) totals_.prompt_tokens_total += static_cast<uint64_t>(sequence.prompt_tokens);
  }
  if (sequence.forks_left > 0) start_forks(sequence, logits);
  take_token(sequence, logits);
}

void EngineCore::start_forks(Sequence& parent, std::span<const float> logits) {
  for (; parent.forks_left > 0; --parent.forks_left) {
    const int32_t index = parent.valid->request.n - parent.forks_left;
    auto fork = make_sequence(parent.request_id, parent.arrival, index, parent.valid);
    fork->started = true;
    fork->first_scheduled = parent.first_scheduled;
    fork->first_token = parent.first_token;
    fork->cached_tokens = parent.cached_tokens;
    row_copy_.assign(logits.begin(), logits.end());
    if (!take_token(*fork, row_copy_)) continue;
    if (running_.size() < static_cast<size_t>(options_.planner.max_num_seqs)) {
      fork->blocks = parent.blocks.fork(parent.computed);
      fork->computed = parent.computed;
      running_.push_back(std::move(fork));
    } else {
      insert_waiting(std::move(fork));
    }
  }
}

bool EngineCore::take_token(Sequence& sequence, std::span<float> logits) {
  TokenEvent event;
  event.index = sequence.index;
  if (const int32_t count = sequence.valid->request.top_logprobs; count > 0)
    top_logprobs(logits, count, event.top_logprobs);
  if (const Status status = constrain(sequence, logits); !status) {
    finish(sequence, FinishReason::kError, &status.error());
    return false;
  }
  const auto sampled = sequence.sampler->sample(logits, sequence.prompt(), sequence.output(), sequence.target());
  if (!sampled) {
    finish(sequence, FinishReason::kError, &sampled.error());
    return false;
  }
  event.id = sampled->id;
  event.logprob = sampled->logprob;
  sequence.tokens.push_back(sampled->id);
  ++totals_.generation_tokens_total;

  const ValidRequest& valid = *sequence.valid;
  const bool is_end = std::ranges::binary_search(valid.end_ids, sampled->id);
  if (!is_end) sequence.text.push(sampled->id, event.text);
  valid.events.push({.token = std::move(event)});
  if (is_end || sequence.text.matched_stop() != nullptr) {
    finish(sequence, FinishReason::kStop);
    return false;
  }
  const auto complete = accept(sequence, sampled->id);
  if (!complete || *complete) {
    finish(sequence, complete ? FinishReason::kStop : FinishReason::kError, complete ? nullptr : &complete.error());
    return false;
  }
  if (sequence.output().size() >= static_cast<size_t>(valid.max_output_tokens)) {
    finish(sequence, FinishReason::kLength);
    return false;
  }
  return true;
}

void EngineCore::send_finish(const Sequence& sequence, FinishEvent event) {
  if (--sequence.valid->answers_left == 0) ++requests_ended_;
  sequence.valid->events.push({.finish = std::move(event)});
}

void EngineCore::finish(Sequence& sequence, FinishReason reason, const Error* error) {
  QUERN_CHECK(!sequence.ended);
  FinishEvent event = finish_event(sequence, sequence.index, reason, error);
  if (const std::string* stop = sequence.text.matched_stop()) event.stop_text = *stop;
  sequence.text.flush(event.text);
  sequence.ended = true;
  sequence.blocks.release();
  send_finish(sequence, std::move(event));
}

void EngineCore::finish_all(Sequence& sequence, FinishReason reason, const Error* error) {
  if (sequence.ended) return;
  for (; sequence.forks_left > 0; --sequence.forks_left) {
    const int32_t index = sequence.valid->request.n - sequence.forks_left;
    send_finish(sequence, finish_event(sequence, index, reason, error));
  }
  finish(sequence, reason, error);
}

}  // namespace quern
