#include "engine/request.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/status.h"

namespace quern {

namespace {

constexpr int32_t kAnswersMax = 128;
constexpr size_t kStopsMax = 256;
constexpr size_t kStopBytesMax = 4096;
constexpr size_t kStopIdsMax = 4096;
constexpr int32_t kTopLogprobsMax = 128;
constexpr size_t kSaltBytesMax = 1024;
constexpr size_t kWordsMax = 1024;
constexpr int32_t kDraftLengthMax = 64;
constexpr int32_t kBackgroundPriority = 1'000'000;

Status check_ids(std::string_view field, const std::vector<int32_t>& ids, int32_t vocab_size) {
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return invalid_argument(fmt::format("{}: token id {} is outside the vocabulary of {}", field, id, vocab_size));
    }
  }
  return {};
}

Status check_prompt(const Request& request, const RequestLimits& limits) {
  const size_t tokens = request.prompt_ids.size();
  if (tokens == 0) return invalid_argument("prompt_ids: the prompt is empty");
  if (tokens >= static_cast<size_t>(limits.max_model_len)) {
    return invalid_argument(
        fmt::format("prompt_ids: {} prompt tokens and one to generate are more than the {} tokens (max_model_len) a "
                    "sequence may have",
                    tokens, limits.max_model_len));
  }
  return check_ids("prompt_ids", request.prompt_ids, limits.vocab_size);
}

Status check_ends(const Request& request, const RequestLimits& limits) {
  if (request.max_tokens < 0) return invalid_argument(fmt::format("max_tokens: {} is negative", request.max_tokens));
  if (request.n < 1 || request.n > kAnswersMax) {
    return invalid_argument(fmt::format("n: {} is not between 1 and {}", request.n, kAnswersMax));
  }
  if (request.priority != 0 && !limits.priorities) {
    return invalid_argument(fmt::format("priority: {} is refused under the scheduling policy fcfs", request.priority));
  }
  if (request.top_logprobs < 0 || request.top_logprobs > kTopLogprobsMax) {
    return invalid_argument(
        fmt::format("top_logprobs: {} is not between 0 and {}", request.top_logprobs, kTopLogprobsMax));
  }
  if (request.prompt_logprobs && (*request.prompt_logprobs < 0 || *request.prompt_logprobs > kTopLogprobsMax)) {
    return invalid_argument(
        fmt::format("prompt_logprobs: {} is not between 0 and {}", *request.prompt_logprobs, kTopLogprobsMax));
  }
  if (request.cache_salt.size() > kSaltBytesMax) {
    return invalid_argument(
        fmt::format("cache_salt: {} bytes are more than {}", request.cache_salt.size(), kSaltBytesMax));
  }
  if (request.stop.size() > kStopsMax) {
    return invalid_argument(fmt::format("stop: {} strings are more than {}", request.stop.size(), kStopsMax));
  }
  for (const std::string& stop : request.stop) {
    if (stop.size() > kStopBytesMax) {
      return invalid_argument(fmt::format("stop: a string of {} bytes is longer than {}", stop.size(), kStopBytesMax));
    }
  }
  if (request.stop_token_ids.size() > kStopIdsMax) {
    return invalid_argument(
        fmt::format("stop_token_ids: {} ids are more than {}", request.stop_token_ids.size(), kStopIdsMax));
  }
  QUERN_TRY(check_ids("thinking", request.thinking.start_ids, limits.vocab_size));
  QUERN_TRY(check_ids("thinking", request.thinking.end_ids, limits.vocab_size));
  return check_ids("stop_token_ids", request.stop_token_ids, limits.vocab_size);
}

Status read_speculation(const RequestLimits& limits, ValidRequest& valid) {
  const Request& request = valid.request;
  valid.speculation = limits.speculation;
  if (request.speculation) {
    QUERN_ASSIGN(valid.speculation, parse_speculation("speculation", *request.speculation));
  }
  if (valid.speculation == Speculation::kDraft && !limits.has_draft_model) {
    return invalid_argument("speculation: no draft model was loaded");
  }
  if (request.num_speculative_tokens < 0 || request.num_speculative_tokens > kDraftLengthMax) {
    return invalid_argument(fmt::format("num_speculative_tokens: {} is not between 0 and {}",
                                        request.num_speculative_tokens, kDraftLengthMax));
  }
  valid.draft_length_max =
      request.num_speculative_tokens > 0 ? request.num_speculative_tokens : limits.num_speculative_tokens;
  if (request.prediction_ids.size() > static_cast<size_t>(limits.max_model_len)) {
    return invalid_argument(fmt::format("prediction: {} tokens are more than the {} a sequence may have",
                                        request.prediction_ids.size(), limits.max_model_len));
  }
  return check_ids("prediction", request.prediction_ids, limits.vocab_size);
}

Status read_adapter_choice(const RequestNames& names, ValidRequest& valid) {
  const Request& request = valid.request;
  if (request.adapter.empty()) return {};
  if (!std::isfinite(request.adapter_scale)) return invalid_argument("adapter_scale: not finite");
  if (names.adapters == nullptr) return invalid_argument("adapter: this engine takes none");
  QUERN_ASSIGN(valid.adapter, names.adapters->use(request.adapter));
  valid.adapter.scale *= request.adapter_scale;
  return {};
}

Result<SamplingParams> sampling_params(const SamplingOptions& options, const TokenWords* words) {
  SamplingParams params;
  params.temperature = options.temperature;
  params.top_k = options.top_k;
  params.top_p = options.top_p;
  params.min_p = options.min_p;
  params.typical_p = options.typical_p;
  params.top_n_sigma = options.top_n_sigma;
  params.xtc_probability = options.xtc_probability;
  params.xtc_threshold = options.xtc_threshold;
  params.repetition_penalty = options.repetition_penalty;
  params.presence_penalty = options.presence_penalty;
  params.frequency_penalty = options.frequency_penalty;
  params.dry = {.multiplier = options.dry_multiplier,
                .base = options.dry_base,
                .allowed_length = options.dry_allowed_length,
                .penalty_last_n = options.dry_penalty_last_n};
  params.mirostat = options.mirostat;
  params.mirostat_tau = options.mirostat_tau;
  params.mirostat_eta = options.mirostat_eta;
  params.logit_bias = options.logit_bias;
  params.allowed_token_ids = options.allowed_token_ids;
  params.min_tokens = options.min_tokens;
  if (!options.samplers.empty()) {
    QUERN_ASSIGN(params.order, parse_sampler_order(options.samplers));
  }
  params.seed = options.seed ? *options.seed : fresh_seed();
  if (options.bad_words.size() > kWordsMax || options.dry_sequence_breakers.size() > kWordsMax) {
    return invalid_argument(fmt::format("bad_words, dry_sequence_breakers: more than {} strings", kWordsMax));
  }
  if (!options.bad_words.empty()) {
    if (words == nullptr) return invalid_argument("bad_words: this model has no text");
    QUERN_ASSIGN(params.bad_words, words->bad_word_ids(options.bad_words));
  }
  if (params.dry.enabled() && words != nullptr) {
    QUERN_ASSIGN(params.dry.breakers, words->dry_breakers(options.dry_sequence_breakers));
  }
  return params;
}

}  // namespace

uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

Result<std::shared_ptr<const ValidRequest>> validate_request(Request request, const RequestLimits& limits,
                                                             const std::vector<int32_t>& eos_ids,
                                                             const RequestNames& names) {
  QUERN_TRY(check_prompt(request, limits));
  QUERN_TRY(check_ends(request, limits));
  QUERN_ASSIGN(SamplingParams sampling, sampling_params(request.sampling, names.words));
  sampling.logprob = request.logprobs || request.top_logprobs > 0;
  QUERN_TRY(validate(sampling, limits.vocab_size));

  if (request.background && request.priority == 0 && limits.priorities) request.priority = kBackgroundPriority;
  auto valid = std::make_shared<ValidRequest>(std::move(request));
  const Request& checked = valid->request;
  valid->sampling = std::move(sampling);
  const int32_t room = limits.max_model_len - static_cast<int32_t>(checked.prompt_ids.size());
  valid->max_output_tokens = checked.max_tokens == 0 ? room : std::min(checked.max_tokens, room);
  auto stops = std::make_shared<std::vector<std::string>>(checked.stop);
  std::erase(*stops, std::string());
  valid->stops = std::move(stops);
  valid->end_ids = checked.stop_token_ids;
  if (!checked.ignore_eos) valid->end_ids.insert(valid->end_ids.end(), eos_ids.begin(), eos_ids.end());
  std::ranges::sort(valid->end_ids);
  if (valid->sampling.min_tokens > 0) {
    if (valid->sampling.min_tokens > valid->max_output_tokens) {
      return invalid_argument(fmt::format("min_tokens: {} is more than max_tokens or the context allow ({})",
                                          valid->sampling.min_tokens, valid->max_output_tokens));
    }
    // vLLM keeps the model's own end from being drawn even where it would not end the answer.
    valid->sampling.end_ids = valid->end_ids;
    valid->sampling.end_ids.insert(valid->sampling.end_ids.end(), eos_ids.begin(), eos_ids.end());
    const auto& allowed = valid->sampling.allowed_token_ids;
    if (allowed && std::ranges::all_of(*allowed, [&](int32_t id) {
          return std::ranges::find(valid->sampling.end_ids, id) != valid->sampling.end_ids.end();
        })) {
      return invalid_argument("allowed_token_ids: all of them end the answer, which min_tokens forbids");
    }
  }
  QUERN_TRY(read_speculation(limits, *valid));
  QUERN_TRY(read_adapter_choice(names, *valid));
  valid->arrival = EngineClock::now();
  return valid;
}

}  // namespace quern
