#include "server/generation.h"

#include <functional>

#include "base/status.h"
#include "platform/people/scopes.h"
#include "server/compile.h"
#include "server/keys.h"
#include "server/tracing/request_span.h"

namespace quern {
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
  if (auto* span = reply.span())
    span->see_request(shown_name(*generation.model, generation.request), generation.request);
  if (const auto& grammar = generation.plan.grammar) {
    auto compiled = co_await compile_grammar(*generation.model->engine, *grammar, generation.plan.grammar_param);
    if (!compiled) co_return std::unexpected(compiled.error());
    generation.request.grammar = std::move(*compiled);
  }
  auto stream = submit(*generation.model, generation.request, generation.prompt_field);
  if (!stream) co_return std::unexpected(stream.error());
  reply.count_tokens(std::ssize(generation.request.prompt_ids));
  EventStreams streams;
  streams.push_back(std::move(*stream));
  co_return streams;
}

void set_origin(Request& request, const http::Request& from) {
  const auto key = key_of(from);
  // A person's tokens change by the half hour, the person does not.
  const bool is_person = from.principal && from.principal->kind == people::Principal::Kind::kUser;
  request.tenant = is_person ? std::hash<std::string_view>{}(from.principal->id)
                   : key     ? std::hash<std::string_view>{}(*key)
                             : 0;
  request.background = from.background;
}

const std::string& shown_name(const ServedModel& model, const Request& request) {
  return request.adapter.empty() ? model.id : request.adapter;
}

ApiResult<std::unique_ptr<EventStream>> submit(const ServedModel& model, Request request,
                                               std::string_view prompt_field) {
  const auto prompt_tokens = std::ssize(request.prompt_ids);
  auto stream = model.engine->submit(std::move(request));
  if (stream) return std::move(*stream);
  ApiError error = request_error(stream.error(), prompt_field);
  if (prompt_tokens >= model.engine->max_model_len()) error.code = "context_length_exceeded";
  return std::unexpected(std::move(error));
}

ApiError finish_error(const FinishEvent& finish) {
  return to_api_error(finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"}));
}

}  // namespace quern
