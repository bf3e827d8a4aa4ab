#include "generation_options.h"

#include <algorithm>

#include "base/status.h"
#include "input.h"

namespace quern::cli {

void add_engine_options(CLI::App& command, EngineOptions& options) {
  command.add_option("-t,--threads", options.num_threads, "threads; 0: physical cores this process may use")
      ->capture_default_str();
  command.add_option("--precision", options.precision, "fast | exact")->capture_default_str();
  command.add_option("--max-num-batched-tokens", options.max_num_batched_tokens, "token budget of a step")
      ->capture_default_str();
  command.add_option("--kv-cache-dtype", options.kv_cache_dtype, "auto | f32 | f16 | bf16 | q8_0")
      ->capture_default_str();
  command.add_option("--kv-cache-bytes", options.kv_cache_bytes, "size of the KV cache; 0: from context and memory")
      ->capture_default_str();
  command.add_option("--max-model-len", options.max_model_len, "longest sequence; 0: the model's context")
      ->capture_default_str();
  command.add_option("--device", options.device, "auto | cpu | reference")->capture_default_str();
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
  command.add_option("--seed", args.seed, "of the random draws; absent: a fresh one");
  command.add_option("--stop", args.stop, "text that ends the answer; may be repeated")->expected(1)->take_all();
  command.add_option("--stop-ids", args.stop_ids, "token ids that end the answer: 1,2,3");
  command.add_flag("--ignore-eos", args.ignore_eos, "the model's end tokens do not end the answer");
  command.add_flag("--keep-special", args.keep_special, "show special tokens in the text");
}

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
  for (const std::string& text : args.logit_bias) {
    QUERN_ASSIGN(const auto bias, parse_logit_bias("--logit-bias", text));
    sampling.logit_bias.push_back(bias);
  }
  request.max_tokens = args.max_tokens.value_or(0);
  request.stop = args.stop;
  if (!args.stop_ids.empty()) {
    QUERN_ASSIGN(request.stop_token_ids, parse_ids("--stop-ids", args.stop_ids));
  }
  request.ignore_eos = args.ignore_eos;
  request.skip_special_tokens = !args.keep_special;
  return request;
}

Error in_terms_of_options(Error error, std::string_view prompt_option) {
  const size_t end = error.message.find(':');
  if (end == std::string::npos) return error;
  std::string field = error.message.substr(0, end);
  if (field.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string::npos) return error;
  if (field == "prompt_ids") {
    field = prompt_option;
  } else {
    if (field == "stop_token_ids") field = "stop_ids";
    if (field == "num_threads") field = "threads";
    std::ranges::replace(field, '_', '-');
    field.insert(0, "--");
  }
  error.message.replace(0, end, field);
  return error;
}

}  // namespace quern::cli
