#include "engine/request.h"

#include <algorithm>
#include <random>

#include "base/status.h"

namespace quern {

namespace {

constexpr int32_t kAnswersMax = 128;
constexpr size_t kStopsMax = 256;
constexpr size_t kStopBytesMax = 4096;
constexpr size_t kStopIdsMax = 4096;
constexpr int32_t kTopLogprobsMax = 128;

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
  if (request.top_logprobs < 0 || request.top_logprobs > kTopLogprobsMax) {
    return invalid_argument(
        fmt::format("top_logprobs: {} is not between 0 and {}", request.top_logprobs, kTopLogprobsMax));
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

uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

SamplingParams sampling_params(const SamplingOptions& options) {
  SamplingParams params;
  params.temperature = options.temperature;
  params.top_k = options.top_k;
  params.top_p = options.top_p;
  params.min_p = options.min_p;
  params.typical_p = options.typical_p;
  params.repetition_penalty = options.repetition_penalty;
  params.presence_penalty = options.presence_penalty;
  params.frequency_penalty = options.frequency_penalty;
  params.logit_bias = options.logit_bias;
  params.seed = options.seed ? *options.seed : fresh_seed();
  return params;
}

}  // namespace

Result<std::shared_ptr<const ValidRequest>> validate_request(Request request, const RequestLimits& limits,
                                                             const std::vector<int32_t>& eos_ids) {
  QUERN_TRY(check_prompt(request, limits));
  QUERN_TRY(check_ends(request, limits));
  SamplingParams sampling = sampling_params(request.sampling);
  QUERN_TRY(validate(sampling, limits.vocab_size));

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
  valid->arrival = EngineClock::now();
  return valid;
}

}  // namespace quern
