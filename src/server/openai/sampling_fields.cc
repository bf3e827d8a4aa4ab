#include "server/openai/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "engine/sampling_bounds.h"

namespace quern::openai {
namespace {

constexpr size_t kStopStringsMax = 64;
constexpr size_t kStopBytesMax = 4096;
constexpr size_t kWordsMax = 1024;
constexpr size_t kAllowedIdsMax = 1 << 20;
constexpr int64_t kBestOfMax = 128;
constexpr int32_t kBeamsMax = 64;
constexpr int64_t kDraftLengthMax = 64;

void read_logit_bias(Fields& fields, SamplingOptions& sampling) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& item : bias->items()) {
    const std::string& key = item.key();
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      return fields.fault("logit_bias", "logit_bias: the keys must be token ids");
    }
    const double value = item.value().is_number() ? item.value().get<double>() : std::nan("");
    if (!(value >= -100 && value <= 100)) {
      return fields.fault("logit_bias", fmt::format("logit_bias: the value of {} is not a number in [-100, 100]", id));
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(value));
  }
}

void read_bounded(Fields& fields, std::string_view name, const SamplingBound& bound, SamplingOptions& sampling) {
  if (const auto value = fields.number(name, bound.low, bound.high)) sampling.*bound.value = static_cast<float>(*value);
}
void set_integer(Fields& fields, int32_t& target, std::string_view name, int64_t min, int64_t max = kTokensMax) {
  if (const auto value = fields.integer(name, min, max)) target = static_cast<int32_t>(*value);
}

// Under the names of llama.cpp's server.
void read_llama_sampling(Fields& fields, SamplingOptions& sampling) {
  set_integer(fields, sampling.dry_allowed_length, "dry_allowed_length", 0);
  set_integer(fields, sampling.dry_penalty_last_n, "dry_penalty_last_n", -1);
  if (auto strings = fields.string_or_strings("dry_sequence_breakers", kWordsMax)) {
    sampling.dry_sequence_breakers = std::move(*strings);
  }
  set_integer(fields, sampling.mirostat, "mirostat", 0, 2);
  if (auto names = fields.string_or_strings("samplers", kWordsMax)) sampling.samplers = std::move(*names);
}

// Under the names of vLLM's server.
void read_token_limits(Fields& fields, SamplingOptions& sampling) {
  set_integer(fields, sampling.min_tokens, "min_tokens", 0);
  if (auto words = fields.string_or_strings("bad_words", kWordsMax)) sampling.bad_words = std::move(*words);
  if (const auto ids = fields.integers("allowed_token_ids", 0, kTokensMax, kAllowedIdsMax)) {
    sampling.allowed_token_ids.emplace(ids->begin(), ids->end());
  }
}

}  // namespace

void read_sampling(Fields& fields, SamplingOptions& sampling) {
  for (const SamplingBound& bound : kSamplingBounds) {
    // llama.cpp's name, which gives way to vLLM's.
    if (bound.value == &SamplingOptions::repetition_penalty) read_bounded(fields, "repeat_penalty", bound, sampling);
    read_bounded(fields, bound.field, bound, sampling);
  }
  if (const auto value = fields.integer("top_k", -1, kTokensMax)) sampling.top_k = static_cast<int32_t>(*value);
  if (const auto value =
          fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    sampling.seed = static_cast<uint64_t>(*value);
  }
  read_logit_bias(fields, sampling);
  read_llama_sampling(fields, sampling);
  read_token_limits(fields, sampling);
}

void read_stop(Fields& fields, Request& request) {
  if (auto stop = fields.string_or_strings("stop", kStopStringsMax)) {
    for (std::string& text : *stop) {
      if (text.empty()) return fields.fault("stop", "stop: an empty string cannot end an answer");
      if (text.size() > kStopBytesMax) {
        return fields.fault(
            "stop", fmt::format("stop: a string of {} bytes is over the limit of {}", text.size(), kStopBytesMax));
      }
      request.stop.push_back(std::move(text));
    }
  }
  if (const auto ids = fields.integers("stop_token_ids", 0, kTokensMax, kStopStringsMax)) {
    request.stop_token_ids.assign(ids->begin(), ids->end());
  }
}

void read_best_of(Fields& fields, GenerationFields& generation) {
  const auto best_of = fields.integer("best_of", 1, kBestOfMax);
  if (!best_of) return;
  if (*best_of < generation.request.n) {
    return fields.fault("best_of", fmt::format("best_of: {} is less than n ({})", *best_of, generation.request.n));
  }
  if (*best_of > generation.request.n && generation.stream) {
    return fields.fault("best_of", "best_of: the best answers are known at the end only, so not with stream");
  }
  generation.request.logprobs = *best_of > generation.request.n;
  generation.choices = generation.request.n;
  generation.request.n = static_cast<int32_t>(*best_of);
}

void read_beam_search(Fields& fields, GenerationFields& generation) {
  generation.beam_search = fields.boolean("use_beam_search").value_or(false);
  const auto penalty = fields.number("length_penalty", -100, 100);
  fields.accept({"early_stopping"});
  if (!generation.beam_search) {
    if (penalty && *penalty != 1) fields.fault("length_penalty", "length_penalty: only with use_beam_search");
    return;
  }
  generation.length_penalty = penalty.value_or(1.0);
  const auto refuse = [&](std::string_view name, bool asked) {
    if (asked) fields.fault("use_beam_search", fmt::format("use_beam_search: not together with {}", name));
  };
  refuse("stream", generation.stream);
  refuse("best_of", generation.choices > 0);
  refuse("stop", !generation.request.stop.empty());
  refuse("min_tokens", generation.request.sampling.min_tokens > 0);
  // Beams go on by the likeliest tokens as the model has them: not by what changes that.
  for (const std::string_view name : {"logit_bias", "allowed_token_ids", "bad_words", "presence_penalty",
                                      "frequency_penalty", "dry_multiplier", "top_n_sigma", "mirostat", "samplers"}) {
    const Json* value = fields.any(name);
    refuse(name, value != nullptr && !value->empty() && *value != 0);
  }
  for (const std::string_view name : {"repetition_penalty", "repeat_penalty"}) {
    const Json* value = fields.any(name);
    refuse(name, value != nullptr && *value != 1);
  }
  const Json* logprobs = fields.any("logprobs");
  refuse("logprobs", logprobs != nullptr && *logprobs != false);
  for (const std::string_view name : {"prompt_logprobs", "thinking_token_budget"}) {
    refuse(name, fields.any(name) != nullptr);
  }
  if (generation.request.n > kBeamsMax) {
    fields.fault("n", fmt::format("n: at most {} beams", kBeamsMax));
  }
}

// [{"name", "scale"}], one at most; or its name as Xinference's clients say it.
void read_adapter(Fields& fields, Request& request) {
  const Json* list = fields.array("lora");
  if (auto name = fields.string("lora_name"); name && !name->empty()) {
    if (list != nullptr && !list->empty()) return fields.fault("lora_name", "lora_name: not together with lora");
    request.adapter = std::move(*name);
    return;
  }
  if (list == nullptr || list->empty()) return;
  if (list->size() > 1) return fields.fault("lora", "lora: one adapter per request");
  Fields inner(list->front());
  const auto name = inner.string("name");
  if (!name) inner.fault("name", "name: is missing");
  request.adapter_scale = static_cast<float>(inner.number("scale", -1e6, 1e6).value_or(1.0));
  inner.refuse_unknown();
  if (!inner.ok()) return fields.fault("lora", "lora: " + inner.take_error().message);
  request.adapter = *name;
}

void read_speculation(Fields& fields, GenerationFields& generation) {
  if (auto method = fields.string("speculation")) generation.request.speculation = std::move(*method);
  set_integer(fields, generation.request.num_speculative_tokens, "num_speculative_tokens", 0, kDraftLengthMax);
  const Json* prediction = fields.object("prediction");
  if (prediction == nullptr) return;
  const auto content = prediction->find("content");
  if (prediction->value("type", Json()) != "content" || content == prediction->end()) {
    return fields.fault("prediction", "prediction: must be {\"type\": \"content\", \"content\": …}");
  }
  if (content->is_string()) {
    generation.prediction = content->get<std::string>();
    return;
  }
  if (!content->is_array()) return fields.fault("prediction", "prediction: the content must be text or text parts");
  for (const Json& part : *content) {
    const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
    if (!is_text) return fields.fault("prediction", "prediction: the content must be text or text parts");
    generation.prediction += part["text"].get<std::string>();
  }
}

void read_chat_logprobs(Fields& fields, GenerationFields& generation) {
  generation.logprobs = fields.boolean("logprobs").value_or(false);
  generation.request.logprobs |= generation.logprobs;
  const auto top = fields.integer("top_logprobs", 0, kLogprobsMax);
  if (!top) return;
  if (*top > 0 && !generation.logprobs) {
    return fields.fault("top_logprobs", "top_logprobs: only with logprobs: true");
  }
  generation.request.top_logprobs = static_cast<int32_t>(*top);
}

void read_completion_logprobs(Fields& fields, CompletionRequest& completion) {
  GenerationFields& generation = completion.generation;
  if (const Json* flag = fields.any("logprobs"); flag != nullptr && *flag == false) return;
  if (const auto top = fields.integer("logprobs", 0, kLogprobsMax)) {
    generation.logprobs = true;
    generation.request.logprobs = true;
    generation.request.top_logprobs = static_cast<int32_t>(*top);
    if (completion.echo && !generation.request.prompt_logprobs) {
      generation.request.prompt_logprobs = generation.request.top_logprobs;
      generation.hide_prompt_logprobs = true;
    }
  }
}

}  // namespace quern::openai
