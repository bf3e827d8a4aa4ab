#include "server/openai/generate.h"

#include <algorithm>
#include <functional>

#include "base/status.h"
#include "server/chat_plan.h"
#include "server/compile.h"
#include "server/generation.h"
#include "server/model_body.h"
#include "server/offload.h"
#include "server/openai/answer.h"
#include "server/openai/beam_answer.h"
#include "server/openai/job.h"
#include "server/openai/request.h"
#include "server/openai/streamed_answer.h"
#include "server/openai/whole_answer.h"
#include "server/pump.h"
#include "server/route.h"
#include "server/tracing/request_span.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

// The model's name may be an adapter's; a field of the request may name another.
void set_whom(Job& job, const std::string& adapter, const http::Request& request) {
  if (job.fields.request.adapter.empty()) job.fields.request.adapter = adapter;
  set_origin(job.fields.request, request);
}

ApiResult<Job> prepare_chat(const ModelTable& models, const http::Request& request) {
  const auto read = read_generator_body(models, request);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model, adapter] = *read;
  auto chat = parse_chat_request(body, default_sampling(*model));
  if (!chat) return std::unexpected(chat.error());
  ChatPlanInput input;
  input.prompt.messages = std::move(chat->messages);
  input.prompt.tools = std::move(chat->tools.shown);
  input.prompt.kwargs = std::move(chat->template_kwargs);
  input.prompt.add_generation_prompt = chat->add_generation_prompt;
  input.prompt.continue_final_message = chat->continue_final_message;
  input.tools = std::move(chat->tools.tools);
  input.tool_choice = chat->tools.choice;
  input.parallel_calls = chat->tools.parallel;
  input.thinking_budget = chat->thinking_budget;
  if (auto& grammar = chat->generation.grammar) {
    input.grammar = std::move(grammar->spec);
    input.grammar_param = std::move(grammar->param);
    grammar.reset();
  }
  auto plan = plan_chat(*model, std::move(input));
  if (!plan) return std::unexpected(plan.error());
  Job job{.model = model,
          .fields = std::move(chat->generation),
          .prompts = {},
          .echoes = {""},
          .echo = false,
          .plan = std::nullopt,
          .reader = {}};
  job.prompts.push_back(std::move(plan->prompt_ids));
  Request& engine_request = job.fields.request;
  engine_request.thinking = plan->thinking;
  if (plan->needs_special_tokens) engine_request.skip_special_tokens = false;
  if (plan->grammar) job.fields.grammar = GrammarField{std::move(*plan->grammar), plan->grammar_param};
  job.reader = {.parallel_calls = chat->tools.parallel,
                .include_reasoning = chat->include_reasoning,
                .short_call_ids = plan->short_call_ids};
  job.plan = std::move(*plan);
  set_whom(job, adapter, request);
  return job;
}

ApiResult<Job> prepare_completion(const ModelTable& models, const http::Request& request) {
  const auto read = read_generator_body(models, request);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model, adapter] = *read;
  auto completion = parse_completion_request(body, default_sampling(*model));
  if (!completion) return std::unexpected(completion.error());
  const TextModel& text = *model->text;
  Job job{.model = model,
          .fields = std::move(completion->generation),
          .prompts = {},
          .echoes = {},
          .echo = completion->echo,
          .plan = std::nullopt,
          .reader = {}};
  if (job.echo && job.fields.logprobs && job.fields.stream) {
    return bad_field("echo", "echo: logprobs of the prompt come with whole answers only, not with stream");
  }
  for (auto& prompt : completion->prompts) {
    std::string echo;
    if (const auto* words = std::get_if<std::string>(&prompt)) {
      auto ids = text.encode_prompt(*words, model->max_model_len());
      if (!ids) return std::unexpected(prompt_error(ids.error(), "prompt"));
      job.prompts.push_back(std::move(*ids));
      if (completion->echo) echo = *words;
    } else {
      auto& ids = std::get<std::vector<int32_t>>(prompt);
      if (completion->echo) {
        auto decoded = text.tokenizer().decode(ids, true);
        if (!decoded) return std::unexpected(to_api_error(decoded.error()));
        echo = std::move(*decoded);
      }
      job.prompts.push_back(std::move(ids));
    }
    job.echoes.push_back(std::move(echo));
  }
  set_whom(job, adapter, request);
  return job;
}

ApiResult<EventStreams> submit(Job& job, RequestSpan* span) {
  EventStreams streams;
  if (!job.fields.prediction.empty()) {
    auto encoded = job.model->text->tokenizer().encode(job.fields.prediction, {.add_special = false});
    if (!encoded) return std::unexpected(to_api_error(encoded.error()));
    job.fields.request.prediction_ids = std::move(encoded->ids);
  }
  for (auto& prompt : job.prompts) {
    Request request = job.fields.request;
    request.prompt_ids = prompt;
    if (span != nullptr) span->see_request(shown_name(*job.model, request), request);
    auto stream = quern::submit(*job.model, std::move(request), job.plan ? "messages" : "prompt");
    if (!stream) return std::unexpected(stream.error());
    streams.push_back(std::move(*stream));
  }
  return streams;
}

awaitable<void> answer_whole(const AnswerHead& head, const Job& job, EventStreams& streams, http::Reply& reply) {
  WholeAnswer answer(head.kind, job);
  std::optional<ApiError> failure;
  const EventSink sink = [&](size_t stream_idx, const Event& event) -> awaitable<bool> {
    failure = answer.take(stream_idx, event);
    co_return !failure;
  };
  const bool complete = co_await pump(reply, streams, Delivery::kWhole, sink);
  if (failure) co_return co_await send_error(reply, *failure);
  if (!complete) co_return;  // the client is gone
  co_await reply.send(200, "application/json", answer.body(head));
}

awaitable<void> answer_stream(const AnswerHead& head, const Job& job, EventStreams& streams, http::Reply& reply) {
  StreamedAnswer answer(head, job);
  co_await reply.start_stream(200, "text/event-stream; charset=utf-8");
  co_await reply.write(answer.begin());
  const EventSink sink = [&](size_t stream_idx, const Event& event) -> awaitable<bool> {
    const auto chunks = answer.take(stream_idx, event);
    if (!chunks) {
      co_await reply.write("data: " + openai_error_body(chunks.error()) + "\n\n" + kDoneChunk);
      co_return false;
    }
    co_return chunks->empty() || co_await reply.write(*chunks);
  };
  if (co_await pump(reply, streams, Delivery::kStreamed, sink)) co_await reply.write(answer.end());
  co_await reply.end_stream();
}

awaitable<void> run(AnswerKind kind, ApiResult<Job> job, http::Reply& reply) {
  if (!job) co_return co_await send_error(reply, job.error());
  if (const auto& grammar = job->fields.grammar) {
    if (job->fields.beam_search) {
      const ApiError error{.message = fmt::format("use_beam_search: not together with {}", grammar->param),
                           .param = "use_beam_search"};
      co_return co_await send_error(reply, error);
    }
    auto compiled = co_await compile_grammar(*job->model->engine, grammar->spec, grammar->param);
    if (!compiled) co_return co_await send_error(reply, compiled.error());
    job->fields.request.grammar = std::move(*compiled);
  }
  const AnswerHead head = make_answer_head(kind, shown_name(*job->model, job->fields.request));
  if (job->fields.beam_search) co_return co_await answer_beams(head, *job, reply);
  auto streams = submit(*job, reply.span());
  if (!streams) co_return co_await send_error(reply, streams.error());
  for (const auto& prompt : job->prompts) reply.count_tokens(std::ssize(prompt));
  if (job->fields.stream) {
    co_await answer_stream(head, *job, *streams, reply);
  } else {
    co_await answer_whole(head, *job, *streams, reply);
  }
}

}  // namespace

awaitable<void> chat_completions(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const std::function<ApiResult<Job>()> make_job = [&] { return prepare_chat(models, request); };
  co_await run(AnswerKind::kChat, co_await offload(make_job), reply);
}

awaitable<void> completions(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const std::function<ApiResult<Job>()> make_job = [&] { return prepare_completion(models, request); };
  co_await run(AnswerKind::kCompletion, co_await offload(make_job), reply);
}

}  // namespace quern::openai
