// Options that `generate` and `run` share, and how they become an engine and requests.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_factory.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern::cli {

// What --quantization is, wherever it is an option.
extern const char* const kQuantizationHelp;

// -t, --precision, --max-num-batched-tokens, --kv-cache-dtype … : straight into the engine's options.
void add_engine_options(CLI::App& command, EngineOptions& options);

// --max-num-seqs, --scheduling-policy, --speculative-method …: for commands that answer many requests.
void add_scheduling_options(CLI::App& command, EngineOptions& options);

// --speculative-method, --num-speculative-tokens: for requests that say nothing themselves.
void add_speculation_options(CLI::App& command, EngineOptions& options);

// --lora-modules NAME=PATH, --max-loras.
void add_adapter_options(CLI::App& command, EngineOptions& options);

// What was given on the command line; absent fields fall back on the model's own defaults.
struct SamplingArgs {
  std::optional<int32_t> max_tokens;
  bool greedy = false;
  std::optional<float> temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::optional<std::string> stop_ids;  // "1,2"
  bool ignore_eos = false;
  bool keep_special = false;
  std::optional<float> top_n_sigma, xtc_probability, xtc_threshold, dry_multiplier, dry_base, mirostat_tau,
      mirostat_eta;
  std::optional<int32_t> dry_allowed_length, dry_penalty_last_n, mirostat, min_tokens, num_speculative_tokens;
  std::vector<std::string> dry_sequence_breakers, bad_words, samplers;
  std::optional<std::string> allowed_ids;  // "1,2"
  std::optional<std::string> speculation;
  std::string adapter;
};

// Options that are one number or a list of strings: the same word on the command line (with dashes) and in a line of
// JSON (with underscores).
struct FloatOption {
  const char* name;
  std::optional<float> SamplingArgs::* value;
  const char* help;
};
struct IntegerOption {
  const char* name;
  std::optional<int32_t> SamplingArgs::* value;
  const char* help;
};
struct StringsOption {
  const char* name;
  std::vector<std::string> SamplingArgs::* value;
  const char* help;
};
std::span<const FloatOption> float_options();
std::span<const IntegerOption> integer_options();
std::span<const StringsOption> strings_options();
void add_sampling_options(CLI::App& command, SamplingArgs& args);

// Everything but the prompt; kInvalidArgument under the field's name ("top_p: …") for what the server would refuse too.
// `fallback` is what holds when neither the caller nor the model's makers say anything;
// greedy leaves the makers' settings aside, so that it is the most likely token and nothing else.
Result<Request> make_request(const SamplingArgs& args, const GenerationDefaults& defaults,
                             const SamplingOptions& fallback);

}  // namespace quern::cli
