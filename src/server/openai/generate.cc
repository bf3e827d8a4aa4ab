#include "server/openai/generate.h"

#include <algorithm>
#include <functional>

#include "base/status.h"
#include "server/chat_plan.h"
#include "server/compile.h"
#include "server/openai/answer.h"
#include "server/openai/beam_answer.h"
#include "server/openai/chat_reader.h"
#include "server/openai/job.h"
#include "server/openai/logprobs.h"
#include "server/openai/request.h"
#include "server/openai/whole_answer.h"
#include "server/pump.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

// Which model, before the fields whose defaults depend on it.
ApiResult<ModelTable::Choice> find_model(const ModelTable& models, const Json& body) {
  if (!body.is_object()) return std::unexpected(ApiError{.message = "the request body must be a JSON object"});
  const auto name = body.find("model");
  if (name == body.end() || name->is_null()) return models.choose("");
  if (!name->is_string()) return bad_field("model", "model: must be a string");
  return models.choose(name->get<std::string>());
}

// The model's name may be an adapter's; a field of the request may name another.
void choose_adapter(const ModelTable::Choice& choice, GenerationFields& fields) {
  if (fields.request.adapter.empty()) fields.request.adapter = choice.adapter;
}

SamplingOptions defaults_of(const ServedModel& model) {
  SamplingOptions options;
  model.text->defaults().apply_to(options);
  return options;
}

ApiResult<Job> prepare_chat(const ModelTable& models, const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  auto model = find_model(models, *body);
  if (!model) return std::unexpected(model.error());
  auto chat = parse_chat_request(*body, defaults_of(*model->model));
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
  auto plan = plan_chat(*model->model, std::move(input));
  if (!plan) return std::unexpected(plan.error());
  Job job{.model = model->model,
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
  choose_adapter(*model, job.fields);
  return job;
}

ApiResult<Job> prepare_completion(const ModelTable& models, const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  auto model = find_model(models, *body);
  if (!model) return std::unexpected(model.error());
  auto completion = parse_completion_request(*body, defaults_of(*model->model));
  if (!completion) return std::unexpected(completion.error());
  const TextModel& text = *model->model->text;
  Job job{.model = model->model,
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
      auto ids = text.encode_prompt(*words);
      if (!ids) return std::unexpected(to_api_error(ids.error()));
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
  choose_adapter(*model, job.fields);
  return job;
}

// Keys share the queue fairly; requests without one are one tenant.
uint64_t tenant_of(const http::Request& request) {
  const auto header = request.header("authorization");
  return header ? std::hash<std::string_view>{}(*header) : 0;
}

ApiResult<EventStreams> submit(Job& job) {
  EventStreams streams;
  if (!job.fields.prediction.empty()) {
    auto encoded = job.model->text->tokenizer().encode(job.fields.prediction, {.add_special = false});
    if (!encoded) return std::unexpected(to_api_error(encoded.error()));
    job.fields.request.prediction_ids = std::move(encoded->ids);
  }
  for (auto& prompt : job.prompts) {
    Request request = job.fields.request;
    request.prompt_ids = prompt;
    const auto prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
    auto stream = job.model->engine->submit(std::move(request));
    if (!stream) {
      ApiError error = to_api_error(stream.error());
      if (prompt_tokens >= job.model->engine->max_model_len()) error.code = "context_length_exceeded";
      return std::unexpected(std::move(error));
    }
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
  const bool complete = co_await pump(reply, streams, sink);
  if (failure) co_return co_await send_error(reply, *failure);
  if (!complete) co_return;  // the client is gone
  co_await reply.send(200, "application/json", answer.body(head));
}

// What the chunk of a token says of its probability. null: nothing was asked.
Json token_logprobs(const AnswerHead& head, const Job& job, CompletionLogprobs& completion, const TokenEvent& token) {
  if (!job.fields.logprobs || token.ends) return nullptr;
  const Tokenizer& tokenizer = job.model->text->tokenizer();
  if (head.kind == AnswerKind::kCompletion) {
    completion.add(tokenizer, token);
    return completion.take();
  }
  ChatLogprobs chat;
  chat.add(tokenizer, token);
  return chat.take();
}

awaitable<void> answer_stream(const AnswerHead& head, const Job& job, EventStreams& streams, http::Reply& reply) {
  const int32_t n = job.fields.request.n;
  const bool with_usage = job.fields.include_usage;
  co_await reply.start_stream(200, "text/event-stream; charset=utf-8");
  std::vector<CompletionLogprobs> logprobs(streams.size() * static_cast<size_t>(n));
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    const std::string& echo = job.echoes[i / static_cast<size_t>(n)];
    if (head.kind == AnswerKind::kChat) co_await reply.write(role_chunk(head, index, with_usage));
    if (!echo.empty()) co_await reply.write(text_chunk(head, index, echo, with_usage));
  }
  Usage usage;
  std::vector<ChatReader> readers = make_readers(job);
  // The chunks that a piece of text amounts to.
  const auto chunks = [&](int32_t index, const std::string& text, bool last) {
    std::string result;
    if (readers.empty()) {
      if (!text.empty()) result = text_chunk(head, index, text, with_usage);
      return result;
    }
    ChatReader& reader = readers[static_cast<size_t>(index)];
    for (Json& delta : reader.push(text)) result += delta_chunk(head, index, std::move(delta), with_usage);
    if (!last) return result;
    for (Json& delta : reader.finish()) result += delta_chunk(head, index, std::move(delta), with_usage);
    return result;
  };
  const EventSink sink = [&](size_t stream_idx, const Event& event) -> awaitable<bool> {
    const auto place = [&](int32_t index) { return static_cast<int32_t>(stream_idx) * n + index; };
    if (event.token) {
      if (job.fields.prompt_only) co_return true;
      const int32_t index = place(event.token->index);
      Json told = token_logprobs(head, job, logprobs[static_cast<size_t>(index)], *event.token);
      if (event.token->text.empty() && told.is_null()) co_return true;
      std::string written = chunks(index, event.token->text, false);
      // Where text is held back, or is a tool call's, its tokens are told of in a chunk of their own.
      if (!told.is_null()) written += text_chunk(head, index, "", with_usage, std::move(told));
      if (written.empty()) co_return true;
      co_return co_await reply.write(written);
    }
    if (!event.finish) co_return true;
    const FinishEvent& finish = *event.finish;
    if (finish.reason == FinishReason::kError) {
      const Error error = finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"});
      co_await reply.write("data: " + openai_error_body(to_api_error(error)) + "\n\n");
      co_return false;
    }
    const int32_t index = place(finish.index);
    const bool shown = !job.fields.prompt_only;
    std::string written = shown ? chunks(index, finish.text, true) : "";
    usage.add(finish, finish.index == 0);
    if (!shown) --usage.output_tokens;
    const FinishReason reason = shown ? finish.reason : FinishReason::kLength;
    written += finish_chunk(head, index, finish_name(readers, static_cast<size_t>(index), reason), with_usage);
    co_return co_await reply.write(written);
  };
  if (co_await pump(reply, streams, sink)) {
    if (with_usage) co_await reply.write(usage_chunk(head, usage));
    co_await reply.write(kDoneChunk);
  }
  co_await reply.end_stream();
}

awaitable<void> run(AnswerKind kind, uint64_t tenant, ApiResult<Job> job, http::Reply& reply) {
  if (!job) co_return co_await send_error(reply, job.error());
  job->fields.request.tenant = tenant;
  if (const auto& grammar = job->fields.grammar) {
    auto compiled = co_await compile_grammar(*job->model->engine, grammar->spec, grammar->param);
    if (!compiled) co_return co_await send_error(reply, compiled.error());
    job->fields.request.grammar = std::move(*compiled);
  }
  const std::string& adapter = job->fields.request.adapter;
  const AnswerHead head = make_answer_head(kind, adapter.empty() ? job->model->id : adapter);
  if (job->fields.beam_search) co_return co_await answer_beams(head, *job, reply);
  auto streams = submit(*job);
  if (!streams) co_return co_await send_error(reply, streams.error());
  if (job->fields.stream) {
    co_await answer_stream(head, *job, *streams, reply);
  } else {
    co_await answer_whole(head, *job, *streams, reply);
  }
}

}  // namespace

awaitable<void> chat_completions(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  co_await run(AnswerKind::kChat, tenant_of(request), prepare_chat(models, request), reply);
}

awaitable<void> completions(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  co_await run(AnswerKind::kCompletion, tenant_of(request), prepare_completion(models, request), reply);
}

}  // namespace quern::openai
