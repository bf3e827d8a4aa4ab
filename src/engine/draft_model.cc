#include "engine/draft_model.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/status.h"
#include "engine/step_pace.h"

namespace quern {

Result<std::unique_ptr<DraftModel>> DraftModel::create(std::unique_ptr<Runner> runner, int32_t vocab_size,
                                                       int64_t num_tokens) {
  const int32_t own = runner->config().vocab_size;
  if (own != vocab_size) {
    return invalid_argument(
        fmt::format("speculative_model: its vocabulary has {} tokens, the model's {}", own, vocab_size));
  }
  const auto blocks = static_cast<int32_t>(std::clamp<int64_t>(num_tokens / kKvBlockSize + 1, 2, 1 << 20));
  QUERN_TRY(runner->allocate_kv(blocks, runner->one_kv_group()));
  QUERN_ASSIGN(auto pool, BlockPool::create(blocks));
  return std::unique_ptr<DraftModel>(new DraftModel(std::move(runner), std::move(pool)));
}

void DraftModel::forget(int64_t sequence) {
  states_.erase(sequence);
}

DraftModel::State& DraftModel::state_of(const Ask& ask) {
  auto place = states_.find(ask.sequence);
  if (place == states_.end()) {
    SamplingParams sampling = *ask.sampling;
    sampling.logprob = false;
    State fresh{.blocks = SequenceBlocks(*pool_, 0),
                .stored = {},
                .sampler = make_sampler(sampling, runner_->config().vocab_size)};
    place = states_.emplace(ask.sequence, std::move(fresh)).first;
  }
  place->second.last_use = ++uses_;
  return place->second;
}

bool DraftModel::make_room(State& state, int32_t tokens) {
  while (!state.blocks.try_grow(tokens)) {
    const auto oldest = std::ranges::min_element(states_, {}, [](const auto& entry) {
      return entry.second.blocks.blocks().empty() ? UINT64_MAX : entry.second.last_use;
    });
    if (&oldest->second == &state || oldest->second.blocks.blocks().empty()) return false;
    oldest->second.blocks.release();
    oldest->second.stored.clear();
  }
  return true;
}

bool DraftModel::run(State& state, std::span<const int32_t> ids, bool wants_logits, int32_t prompt_tokens,
                     std::span<float>& logits) {
  const auto begin = static_cast<int32_t>(state.stored.size());
  const auto count = static_cast<int32_t>(ids.size());
  slots_.clear();
  for (int32_t i = 0; i < count; ++i) slots_.push_back(state.blocks.slot(begin + i));
  const BatchSequence sequence{
      .span = {.query_begin = 0, .query_count = count, .context_begin = begin, .blocks = state.blocks.blocks()},
      .prompt_tokens = prompt_tokens};
  const int32_t row = count - 1;
  auto result = runner_->run({.ids = ids,
                              .slots = slots_,
                              .sequences = {&sequence, 1},
                              .logits_rows = std::span(&row, wants_logits ? 1u : 0u)});
  if (!result) return false;
  state.stored.insert(state.stored.end(), ids.begin(), ids.end());
  logits = *result;
  return true;
}

std::span<float> DraftModel::extend(State& state, std::span<const int32_t> tokens, int32_t prompt_tokens) {
  const auto length = static_cast<int32_t>(tokens.size());
  if (length > runner_->config().context_length || !make_room(state, length)) return {};
  const auto chunk = static_cast<size_t>(runner_->options().max_num_batched_tokens);
  std::span<float> logits;
  while (state.stored.size() < tokens.size()) {
    const auto rest = tokens.subspan(state.stored.size());
    const auto part = rest.first(std::min(rest.size(), chunk));
    if (!run(state, part, part.size() == rest.size(), prompt_tokens, logits)) return {};
  }
  return logits;
}

void DraftModel::propose(const Ask& ask, int32_t count, std::vector<int32_t>& out) {
  out.clear();
  QUERN_CHECK(!ask.tokens.empty());
  State& state = state_of(ask);
  // What was guessed wrongly is overwritten; the last token is always computed, for its logits.
  const auto differs = std::ranges::mismatch(state.stored, ask.tokens);
  const auto agreed = static_cast<size_t>(differs.in1 - state.stored.begin());
  state.stored.resize(std::min(agreed, ask.tokens.size() - 1));
  known_.assign(ask.tokens.begin(), ask.tokens.end());
  const auto prompt = static_cast<size_t>(ask.prompt_tokens);
  for (int32_t i = 0; i < count; ++i) {
    const bool is_catching_up = state.stored.size() + 1 < known_.size();
    const auto start = std::chrono::steady_clock::now();
    const std::span<float> logits = extend(state, known_, ask.prompt_tokens);
    if (logits.empty()) return;
    const std::span<const int32_t> known = known_;
    const auto drawn =
        state.sampler->sample(logits, known.first(prompt), known.subspan(prompt), static_cast<int64_t>(known_.size()));
    if (!drawn) return;
    known_.push_back(drawn->id);
    out.push_back(drawn->id);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!is_catching_up) blend(token_seconds_, seconds);
  }
}

}  // namespace quern
