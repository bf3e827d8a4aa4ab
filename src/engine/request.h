// A request between the door and the step: checked once, then shared by its stream and its sequences.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/adapter_table.h"
#include "engine/draft_source.h"
#include "engine/event_queue.h"
#include "engine/token_words.h"
#include "quern/engine.h"
#include "quern/status.h"
#include "sample/sampler.h"

namespace quern {

using EngineClock = std::chrono::steady_clock;

struct RequestLimits {
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // at most what the KV cache holds, so that any sequence can finish alone
  bool priorities = true;     // false: only priority 0 is taken
  Speculation speculation = Speculation::kOff;  // what a request that says nothing gets
  int32_t num_speculative_tokens = 8;
  bool has_draft_model = false;
};

// A request that can be served: all fields in range, the seed drawn, empty stop strings dropped. Immutable but for
// `events` and `answers_left`, so it may be read from any thread.
struct ValidRequest {
  Request request;
  SamplingParams sampling;    // with the seed of answer 0; answer i draws with seed + i
  AdapterTable::Use adapter;  // null: none; its scale times the request's own
  Speculation speculation = Speculation::kOff;
  int32_t draft_length_max = 0;
  int32_t max_output_tokens = 0;  // >= 1: max_tokens, cut to what the context leaves
  std::shared_ptr<const std::vector<std::string>> stops;
  std::vector<int32_t> end_ids;  // sorted: stop_token_ids and, unless ignore_eos, the model's own
  EngineClock::time_point arrival;
  mutable EventQueue events;
  mutable int32_t answers_left;  // of the core: answers whose FinishEvent is still to come

  explicit ValidRequest(Request r) : request(std::move(r)), events(request.n), answers_left(request.n) {}
};

uint64_t fresh_seed();  // from the system's entropy

// What names in a request stand for. Null: there is nothing of the kind, and naming it is refused.
struct RequestNames {
  const TokenWords* words = nullptr;  // what bad_words and dry_sequence_breakers are made of
  AdapterTable* adapters = nullptr;
};

// kInvalidArgument naming the field and the number; kNotFound for an unknown adapter.
Result<std::shared_ptr<const ValidRequest>> validate_request(Request request, const RequestLimits& limits,
                                                             const std::vector<int32_t>& eos_ids,
                                                             const RequestNames& names = {});

}  // namespace quern
