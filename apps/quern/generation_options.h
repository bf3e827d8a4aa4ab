// Options that `generate` and `run` share, and how they become an engine and requests.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_factory.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern::cli {

// -t, --precision, --max-num-batched-tokens, --kv-cache-dtype … : straight into the engine's options.
void add_engine_options(CLI::App& command, EngineOptions& options);

// What was given on the command line; absent fields fall back on the model's own defaults.
struct SamplingArgs {
  std::optional<int32_t> max_tokens;
  bool greedy = false;
  std::optional<float> temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::string stop_ids;  // "1,2"
  bool ignore_eos = false;
  bool keep_special = false;
};
void add_sampling_options(CLI::App& command, SamplingArgs& args);

// Everything but the prompt. `fallback` is what holds when neither the caller nor the model's makers say anything;
// greedy leaves the makers' settings aside, so that it is the most likely token and nothing else.
Result<Request> make_request(const SamplingArgs& args, const GenerationDefaults& defaults,
                             const SamplingOptions& fallback);

// The engine names request fields ("max_tokens: …"); the command line calls them options ("--max-tokens: …").
// `prompt_option` stands for the prompt.
Error in_terms_of_options(Error error, std::string_view prompt_option);

}  // namespace quern::cli
