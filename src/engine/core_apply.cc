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
  event.draft_tokens = index == sequence.index ? sequence.draft_tokens : 0;
  event.accepted_draft_tokens = index == sequence.index ? sequence.accepted_draft_tokens : 0;
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
    apply_chunk(chunk, logits.subspan(row * vocab_size, static_cast<size_t>(chunk.rows) * vocab_size));
    row += static_cast<size_t>(chunk.rows);
  }
  QUERN_CHECK(row == logits_rows_.size());
}

void EngineCore::advance(Sequence& sequence, int32_t tokens) {
  sequence.computed += tokens;
  if (options_.enable_prefix_caching) sequence.blocks.publish(sequence.tokens, sequence.computed);
  sequence.blocks.free_behind_windows(sequence.computed);
}

void EngineCore::apply_chunk(const Chunk& chunk, std::span<float> logits) {
  Sequence& sequence = *chunk.sequence;
  fair_.add_service(sequence.valid->request.tenant, chunk.tokens);
  if (!sequence.draft.empty()) return apply_draft(chunk, logits);
  const int32_t begin = sequence.computed;
  advance(sequence, chunk.tokens);
  if (sequence.scores_prompt() && begin < sequence.prompt_tokens) {
    score_prompt(sequence, begin, chunk.tokens, logits);
  }
  const auto vocab_size = static_cast<size_t>(runner_.config().vocab_size);
  if (sequence.computed == sequence.target()) apply_row(sequence, logits.last(vocab_size));
}

// Row by row as if each had been a step of its own: a guess only saves the step, and the first wrong one ends the
// round. What was computed behind it stays in the blocks until it is overwritten; nothing reads it.
void EngineCore::apply_draft(const Chunk& chunk, std::span<float> logits) {
  Sequence& sequence = *chunk.sequence;
  const auto vocab_size = static_cast<size_t>(runner_.config().vocab_size);
  const auto drafted = static_cast<int32_t>(sequence.draft.size());
  const int32_t accepted_before = sequence.accepted_draft_tokens;
  sequence.draft_tokens += drafted;
  for (int32_t row = 0; row < chunk.rows; ++row) {
    advance(sequence, 1);
    sequence.draft_row = row;
    if (!take_token(sequence, logits.subspan(static_cast<size_t>(row) * vocab_size, vocab_size))) break;
    if (row == drafted || sequence.tokens.back() != sequence.draft[static_cast<size_t>(row)]) break;
  }
  sequence.blocks.shrink(sequence.computed);
  const int32_t accepted = sequence.accepted_draft_tokens - accepted_before;
  sequence.drafter->record(drafted, accepted, draft_cost(sequence));
  ++totals_.drafts_total;
  totals_.draft_tokens_total += static_cast<uint64_t>(drafted);
  totals_.accepted_draft_tokens_total += static_cast<uint64_t>(accepted);
}

// Row i belongs to position begin + i and says how likely the prompt's next token was.
void EngineCore::score_prompt(Sequence& sequence, int32_t begin, int32_t count, std::span<const float> logits) {
  const auto vocab_size = static_cast<size_t>(runner_.config().vocab_size);
  // After a preemption the prompt is computed again, but its events are out.
  for (int32_t i = std::max(0, sequence.prompt_scored - begin); i < count; ++i) {
    if (begin + i + 1 >= sequence.prompt_tokens) break;
    const auto row = logits.subspan(static_cast<size_t>(i) * vocab_size, vocab_size);
    PromptEvent event;
    event.id = sequence.tokens[static_cast<size_t>(begin + i + 1)];
    const RankedLogprob scored = ranked_logprob(row, event.id);
    event.logprob = scored.logprob;
    event.rank = scored.rank;
    if (const int32_t top = *sequence.valid->request.prompt_logprobs; top > 0) {
      top_logprobs(row, top, event.top_logprobs);
    }
    sequence.valid->events.push({.prompt = std::move(event)});
    sequence.prompt_scored = begin + i + 1;
  }
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
  LogitsMask mask;
  if (is_constrained(sequence)) mask = [&sequence](std::span<float> row) { return constrain(sequence, row); };
  const auto sampled = sequence.sampler->sample(logits, sequence.prompt(), sequence.output(), sequence.target(), mask);
  if (!sampled) {
    finish(sequence, FinishReason::kError, &sampled.error());
    return false;
  }
  event.id = sampled->id;
  event.logprob = sampled->logprob;
  const auto row = static_cast<size_t>(sequence.draft_row);
  if (row < sequence.draft.size() && sequence.draft[row] == sampled->id) ++sequence.accepted_draft_tokens;
  sequence.tokens.push_back(sampled->id);
  ++totals_.generation_tokens_total;

  const ValidRequest& valid = *sequence.valid;
  const bool is_end = std::ranges::binary_search(valid.end_ids, sampled->id);
  event.ends = is_end;
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
  if (--sequence.valid->answers_left == 0) {
    ++requests_ended_;
    fair_.leave(sequence.valid->request.tenant);
  }
  sequence.valid->events.push({.finish = std::move(event)});
}

void EngineCore::finish(Sequence& sequence, FinishReason reason, const Error* error) {
  QUERN_CHECK(!sequence.ended);
  FinishEvent event = finish_event(sequence, sequence.index, reason, error);
  if (const std::string* stop = sequence.text.matched_stop()) event.stop_text = *stop;
  sequence.text.flush(event.text);
  if (sequence.valid->speculation == Speculation::kSuffix) corpus_.add(sequence.output());
  if (options_.draft != nullptr) options_.draft->forget(sequence.id);
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
