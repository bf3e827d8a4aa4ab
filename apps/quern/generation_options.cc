#include "generation_options.h"

#include <algorithm>
#include <cstdio>

#include "base/status.h"
#include "engine/sampling_bounds.h"
#include "input.h"

namespace quern::cli {

const char* const kQuantizationHelp =
    "round floating weights at load: none | fp16 | int8 | int4 | hybrid:attention=MODE,ffn=MODE";

void add_engine_options(CLI::App& command, EngineOptions& options) {
  command.add_option("-t,--threads", options.num_threads, "threads; 0: physical cores this process may use")
      ->capture_default_str();
  command.add_option("--precision", options.precision, "fast | exact")->capture_default_str();
  command.add_option("--quantization", options.quantization, kQuantizationHelp)->capture_default_str();
  command.add_option("--max-num-batched-tokens", options.max_num_batched_tokens, "token budget of a step")
      ->capture_default_str();
  command
      .add_option("--kv-cache-dtype,--cache-type-k", options.kv_cache_dtype,
                  "auto | f32 | f16 | bf16 | i16 | q8_0 | q4_0")
      ->capture_default_str();
  command.add_option("--kv-cache-dtype-v,--cache-type-v", options.kv_cache_dtype_v,
                     "of values, where they shall differ from keys");
  command
      .add_option("--kv-cache-memory,--kv-cache-bytes", options.kv_cache_bytes,
                  "size of the KV cache (512M, 2G); 0: from context and memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->default_str("0");
  command.add_option("--gpu-memory-utilization", options.gpu_memory_utilization,
                     "share of the free memory for the KV cache; 0: see --kv-cache-memory");
  command.add_option("--kv-disk", options.kv_disk_path,
                     "file or folder for KV blocks that leave memory: they come back, also after a restart");
  command.add_option("--kv-disk-size", options.kv_disk_bytes, "bound of that file")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->default_str("4G");
  options.on_note = [](const std::string& note) { std::fprintf(stderr, "quern: %s\n", note.c_str()); };
  command.add_option("--max-model-len", options.max_model_len, "longest sequence; 0: the model's context")
      ->capture_default_str();
  command.add_option("--device", options.device, "auto | cpu | reference")->capture_default_str();
}

void add_scheduling_options(CLI::App& command, EngineOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->capture_default_str();
  };
  add("--max-num-seqs", options.max_num_seqs, "sequences that run at once");
  add("--max-waiting", options.max_waiting, "requests beyond those that wait; one more is refused");
  add("--scheduling-policy", options.scheduling_policy, "priority | fcfs");
  add("--long-prefill-token-threshold", options.long_prefill_token_threshold,
      "a longer prompt gets at most so much of a step while others wait; 0: no limit");
  add("--max-num-partial-prefills", options.max_num_partial_prefills, "prompts that may share a step; 0: no limit");
  add("--decode-pace", options.decode_pace,
      "a step of running streams takes at most so many times longer for prompts; 0: no limit");
}

void add_speculation_options(CLI::App& command, EngineOptions& options) {
  command
      .add_option("--speculative-method", options.speculative_method,
                  "off | ngram | suffix | draft: how tokens are guessed; what is not right is not used")
      ->capture_default_str();
  command.add_option("--speculative-model,--model-draft", options.speculative_model,
                     "path of a smaller model of the same vocabulary, for draft");
  command.add_option("--num-speculative-tokens", options.num_speculative_tokens, "guesses per step, at most")
      ->capture_default_str();
}

void add_adapter_options(CLI::App& command, EngineOptions& options) {
  const auto add = [&options](const std::vector<std::string>& modules) {
    for (const std::string& module : modules) {
      const size_t equals = module.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw CLI::ValidationError("--lora-modules", "NAME=PATH is needed");
      options.adapters.push_back({.name = module.substr(0, equals), .path = module.substr(equals + 1)});
    }
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--lora-modules", add, "NAME=PATH of a LoRA adapter (PEFT folder or GGUF); may be repeated")
      ->expected(1)
      ->take_all();
  command.add_option("--max-loras", options.max_loras, "adapters at once; one more drops the least recently used")
      ->capture_default_str();
}

namespace {

std::string with_dashes(std::string_view name) {
  std::string option(name);
  std::ranges::replace(option, '_', '-');
  return "--" + option;
}

}  // namespace

std::span<const FloatOption> float_options() {
  static const FloatOption list[] = {
      {"top_n_sigma", &SamplingArgs::top_n_sigma, "only logits within so many standard deviations of the best"},
      {"xtc_probability", &SamplingArgs::xtc_probability,
       "how often all but the last of the likely tokens are dropped"},
      {"xtc_threshold", &SamplingArgs::xtc_threshold, "probability from which a token is likely (xtc)"},
      {"dry_multiplier", &SamplingArgs::dry_multiplier, "against longer and longer repetitions; 0: off"},
      {"dry_base", &SamplingArgs::dry_base, "growth of the penalty per repeated token (dry)"},
      {"mirostat_tau", &SamplingArgs::mirostat_tau, "surprise aimed at, in bits (mirostat)"},
      {"mirostat_eta", &SamplingArgs::mirostat_eta, "learning rate (mirostat)"},
  };
  return list;
}

std::span<const IntegerOption> integer_options() {
  static const IntegerOption list[] = {
      {"dry_allowed_length", &SamplingArgs::dry_allowed_length, "repetitions up to here cost nothing (dry)"},
      {"dry_penalty_last_n", &SamplingArgs::dry_penalty_last_n, "tokens looked at; -1: all (dry)"},
      {"mirostat", &SamplingArgs::mirostat, "1 | 2: instead of what truncates; 0: off"},
      {"min_tokens", &SamplingArgs::min_tokens, "tokens before which the answer cannot end"},
      {"num_speculative_tokens", &SamplingArgs::num_speculative_tokens, "guesses per step, at most"},
  };
  return list;
}

std::span<const StringsOption> strings_options() {
  static const StringsOption list[] = {
      {"dry_sequence_breakers", &SamplingArgs::dry_sequence_breakers, "text that no repetition spans (dry)"},
      {"bad_words", &SamplingArgs::bad_words, "text that is never in the answer; may be repeated"},
      {"samplers", &SamplingArgs::samplers, "what is applied, in this order: penalties dry temperature top_k …"},
  };
  return list;
}

void add_sampling_options(CLI::App& command, SamplingArgs& args) {
  command.add_option("--max-tokens", args.max_tokens, "longest answer; 0: up to the context's end");
  command.add_flag("--greedy", args.greedy, "always the most likely token");
  command.add_option("--temperature", args.temperature, "0: greedy");
  command.add_option("--top-k", args.top_k, "only the k most likely tokens; 0: off");
  command.add_option("--top-p", args.top_p, "only the most likely tokens of this total probability");
  command.add_option("--min-p", args.min_p, "only tokens at least this likely, relative to the best");
  command.add_option("--typical,--typical-p", args.typical_p, "locally typical sampling; 1: off");
  command.add_option("--repetition-penalty,--repeat-penalty", args.repetition_penalty,
                     "over prompt and answer; 1: off");
  command.add_option("--presence-penalty", args.presence_penalty, "over the answer; 0: off");
  command.add_option("--frequency-penalty", args.frequency_penalty, "over the answer; 0: off");
  command.add_option("--logit-bias", args.logit_bias, "ID=BIAS, added to the token's logit; may be repeated");
  command.add_option("--seed", args.seed, "of the random draws: any number of 64 bits, -1 too; absent: a fresh one")
      ->type_name("INT");
  command.add_option("--stop", args.stop, "text that ends the answer; may be repeated")->expected(1)->take_all();
  command.add_option("--stop-ids", args.stop_ids, "token ids that end the answer: 1,2,3");
  for (const FloatOption& option : float_options()) {
    command.add_option(with_dashes(option.name), args.*option.value, option.help);
  }
  for (const IntegerOption& option : integer_options()) {
    command.add_option(with_dashes(option.name), args.*option.value, option.help);
  }
  for (const StringsOption& option : strings_options()) {
    command.add_option(with_dashes(option.name), args.*option.value, option.help)->expected(1)->take_all();
  }
  command.add_option("--lora", args.adapter, "NAME of an adapter of --lora-modules");
  command.add_option("--allowed-ids", args.allowed_ids, "only these tokens are drawn: 1,2,3");
  command.add_option("--speculation", args.speculation, "off | ngram | suffix | draft: guesses, checked, for speed");
  command.add_flag("--ignore-eos", args.ignore_eos, "the model's end tokens do not end the answer");
  command.add_flag("--keep-special", args.keep_special, "show special tokens in the text");
}

namespace {

Status check_bounds(const SamplingArgs& args, const SamplingOptions& sampling) {
  for (const SamplingBound& bound : kSamplingBounds) {
    const float value = sampling.*bound.value;
    if (value >= bound.low && value <= bound.high) continue;
    const bool above_zero = bound.low == kAboveZero;
    return invalid_argument(fmt::format("{}: {} is outside {}{}, {}]", bound.field, value, above_zero ? '(' : '[',
                                        above_zero ? 0.0f : bound.low, bound.high));
  }
  if (args.max_tokens && *args.max_tokens < 0) {
    return invalid_argument(fmt::format("max_tokens: {} is negative", *args.max_tokens));
  }
  if (sampling.top_k < -1) {
    return invalid_argument(fmt::format("top_k: {} is neither -1 or 0 (off) nor positive", sampling.top_k));
  }
  return {};
}

Status apply_more(const SamplingArgs& args, SamplingOptions& sampling) {
  sampling.top_n_sigma = args.top_n_sigma.value_or(sampling.top_n_sigma);
  sampling.xtc_probability = args.xtc_probability.value_or(sampling.xtc_probability);
  sampling.xtc_threshold = args.xtc_threshold.value_or(sampling.xtc_threshold);
  sampling.dry_multiplier = args.dry_multiplier.value_or(sampling.dry_multiplier);
  sampling.dry_base = args.dry_base.value_or(sampling.dry_base);
  sampling.dry_allowed_length = args.dry_allowed_length.value_or(sampling.dry_allowed_length);
  sampling.dry_penalty_last_n = args.dry_penalty_last_n.value_or(sampling.dry_penalty_last_n);
  if (!args.dry_sequence_breakers.empty()) sampling.dry_sequence_breakers = args.dry_sequence_breakers;
  sampling.mirostat = args.mirostat.value_or(sampling.mirostat);
  sampling.mirostat_tau = args.mirostat_tau.value_or(sampling.mirostat_tau);
  sampling.mirostat_eta = args.mirostat_eta.value_or(sampling.mirostat_eta);
  sampling.min_tokens = args.min_tokens.value_or(sampling.min_tokens);
  sampling.bad_words = args.bad_words;
  sampling.samplers = args.samplers;
  if (args.allowed_ids) {
    QUERN_ASSIGN(sampling.allowed_token_ids, parse_ids("allowed_ids", *args.allowed_ids));
  }
  return {};
}

}  // namespace

Result<Request> make_request(const SamplingArgs& args, const GenerationDefaults& defaults,
                             const SamplingOptions& fallback) {
  Request request;
  if (!args.greedy) {
    request.sampling = fallback;
    defaults.apply_to(request.sampling);
  }
  SamplingOptions& sampling = request.sampling;
  sampling.temperature = args.greedy ? 0.0f : args.temperature.value_or(sampling.temperature);
  sampling.top_k = args.top_k.value_or(sampling.top_k);
  sampling.top_p = args.top_p.value_or(sampling.top_p);
  sampling.min_p = args.min_p.value_or(sampling.min_p);
  sampling.typical_p = args.typical_p.value_or(sampling.typical_p);
  sampling.repetition_penalty = args.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.presence_penalty = args.presence_penalty.value_or(sampling.presence_penalty);
  sampling.frequency_penalty = args.frequency_penalty.value_or(sampling.frequency_penalty);
  sampling.seed = args.seed;
  QUERN_TRY(apply_more(args, sampling));
  request.speculation = args.speculation;
  request.adapter = args.adapter;
  request.num_speculative_tokens = args.num_speculative_tokens.value_or(0);
  for (const std::string& text : args.logit_bias) {
    QUERN_ASSIGN(const auto bias, parse_logit_bias("logit_bias", text));
    sampling.logit_bias.push_back(bias);
  }
  QUERN_TRY(check_bounds(args, sampling));
  request.max_tokens = args.max_tokens.value_or(0);
  if (std::ranges::find(args.stop, std::string()) != args.stop.end()) {
    return invalid_argument("stop: an empty string cannot end an answer");
  }
  request.stop = args.stop;
  if (args.stop_ids) {
    QUERN_ASSIGN(request.stop_token_ids, parse_ids("stop_ids", *args.stop_ids));
  }
  request.ignore_eos = args.ignore_eos;
  request.skip_special_tokens = !args.keep_special;
  return request;
}

}  // namespace quern::cli
