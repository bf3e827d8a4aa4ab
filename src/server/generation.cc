#include "server/generation.h"

#include <functional>

#include "base/status.h"
#include "server/compile.h"
#include "server/keys.h"
#include "server/tracing/request_span.h"

namespace quern {
namespace {

ApiResult<EventStreams> submit(const Generation& generation) {
  auto stream = generation.model->engine->submit(generation.request);
  if (!stream) {
    ApiError error = request_error(stream.error(), generation.prompt_field);
    if (std::ssize(generation.request.prompt_ids) >= generation.model->engine->max_model_len()) {
      error.code = "context_length_exceeded";
    }
    return std::unexpected(std::move(error));
  }
  EventStreams streams;
  streams.push_back(std::move(*stream));
  return streams;
}

}  // namespace

SamplingOptions default_sampling(const ServedModel& model) {
  SamplingOptions options;
  model.text->defaults().apply_to(options);
  return options;
}

ApiResult<void> plan_answer(Generation& generation, ChatPlanInput input) {
  generation.reader.parallel_calls = input.parallel_calls;
  input.prompt_field = generation.prompt_field;
  auto plan = plan_chat(*generation.model, std::move(input));
  if (!plan) return std::unexpected(plan.error());
  Request& request = generation.request;
  request.prompt_ids = std::move(plan->prompt_ids);
  request.thinking = plan->thinking;
  if (plan->needs_special_tokens) request.skip_special_tokens = false;
  generation.reader.short_call_ids = plan->short_call_ids;
  generation.plan = std::move(*plan);
  return {};
}

http::asio::awaitable<ApiResult<EventStreams>> start(Generation& generation, http::Reply& reply) {
  if (auto* span = reply.span()) span->see_request(shown_name(generation), generation.request);
  if (const auto& grammar = generation.plan.grammar) {
    auto compiled = co_await compile_grammar(*generation.model->engine, *grammar, generation.plan.grammar_param);
    if (!compiled) co_return std::unexpected(compiled.error());
    generation.request.grammar = std::move(*compiled);
  }
  co_return submit(generation);
}

void set_origin(Request& request, const http::Request& from) {
  const auto key = key_of(from);
  request.tenant = key ? std::hash<std::string_view>{}(*key) : 0;
  request.background = from.background;
}

const std::string& shown_name(const Generation& generation) {
  const std::string& adapter = generation.request.adapter;
  return adapter.empty() ? generation.model->id : adapter;
}

ApiError finish_error(const FinishEvent& finish) {
  return to_api_error(finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"}));
}

}  // namespace quern
