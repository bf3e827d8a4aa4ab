#include "server/openai/generate.h"

#include "base/status.h"
#include "server/chat_plan.h"
#include "server/compile.h"
#include "server/generation.h"
#include "server/model_body.h"
#include "server/openai/answer.h"
#include "server/openai/chat_reader.h"
#include "server/openai/request.h"
#include "server/pump.h"
#include "server/route.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

// A request that is ready for the engine: one prompt per stream, `n` answers each.
struct Job {
  const ServedModel* model = nullptr;
  GenerationFields fields;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;  // text before each answer; empty for chat
  std::optional<ChatPlan> plan;     // of a chat
  ChatReaderOptions reader;
};

// Readers of all answers of a chat; none for completions.
std::vector<ChatReader> make_readers(const Job& job) {
  std::vector<ChatReader> readers;
  if (!job.plan) return readers;
  for (int32_t i = 0; i < job.fields.request.n; ++i) readers.emplace_back(job.plan->make_parser(), job.reader);
  return readers;
}

const char* finish_name(const std::vector<ChatReader>& readers, size_t at, FinishReason reason) {
  const bool calls = !readers.empty() && readers[at].has_calls() && reason == FinishReason::kStop;
  return calls ? "tool_calls" : finish_reason_name(reason);
}

ApiResult<Job> prepare_chat(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find_generator);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
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
  return job;
}

ApiResult<Job> prepare_completion(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find_generator);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  auto completion = parse_completion_request(body, default_sampling(*model));
  if (!completion) return std::unexpected(completion.error());
  const TextModel& text = *model->text;
  Job job{.model = model,
          .fields = std::move(completion->generation),
          .prompts = {},
          .echoes = {},
          .plan = std::nullopt,
          .reader = {}};
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
  return job;
}

ApiResult<EventStreams> submit(Job& job) {
  EventStreams streams;
  for (auto& prompt : job.prompts) {
    Request request = job.fields.request;
    request.prompt_ids = std::move(prompt);
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
  const int32_t n = job.fields.request.n;
  std::vector<std::string> texts;
  for (const std::string& echo : job.echoes) texts.insert(texts.end(), static_cast<size_t>(n), echo);
  std::vector<ChatReader> readers = make_readers(job);
  std::vector<Json> choices(texts.size());
  Usage usage;
  std::optional<ApiError> failure;
  const EventSink sink = [&](size_t stream_idx, const Event& event) -> awaitable<bool> {
    const auto place = [&](int32_t index) { return stream_idx * static_cast<size_t>(n) + static_cast<size_t>(index); };
    if (event.token) texts[place(event.token->index)] += event.token->text;
    if (!event.finish) co_return true;
    const FinishEvent& finish = *event.finish;
    if (finish.reason == FinishReason::kError) {
      failure = to_api_error(finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"}));
      co_return false;
    }
    const size_t at = place(finish.index);
    texts[at] += finish.text;
    if (readers.empty()) {
      choices[at] = answer_choice(head.kind, static_cast<int32_t>(at), texts[at], finish.reason);
    } else {
      readers[at].push(texts[at]);
      readers[at].finish();
      choices[at] =
          chat_choice(static_cast<int32_t>(at), readers[at].message(), finish_name(readers, at, finish.reason));
    }
    usage.add(finish, finish.index == 0);
    co_return true;
  };
  const bool complete = co_await pump(reply, streams, sink);
  if (failure) co_return co_await send_error(reply, *failure);
  if (!complete) co_return;  // the client is gone
  co_await reply.send(200, "application/json", dump_json(answer_body(head, Json(std::move(choices)), usage)));
}

awaitable<void> answer_stream(const AnswerHead& head, const Job& job, EventStreams& streams, http::Reply& reply) {
  const int32_t n = job.fields.request.n;
  const bool with_usage = job.fields.include_usage;
  co_await reply.start_stream(200, "text/event-stream; charset=utf-8");
  for (size_t i = 0; i < streams.size() * static_cast<size_t>(n); ++i) {
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
    if (event.token && !event.token->text.empty()) {
      const std::string written = chunks(place(event.token->index), event.token->text, false);
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
    std::string written = chunks(index, finish.text, true);
    usage.add(finish, finish.index == 0);
    written += finish_chunk(head, index, finish_name(readers, static_cast<size_t>(index), finish.reason), with_usage);
    co_return co_await reply.write(written);
  };
  if (co_await pump(reply, streams, sink)) {
    if (with_usage) co_await reply.write(usage_chunk(head, usage));
    co_await reply.write(kDoneChunk);
  }
  co_await reply.end_stream();
}

awaitable<void> run(AnswerKind kind, ApiResult<Job> job, http::Reply& reply) {
  if (!job) co_return co_await send_error(reply, job.error());
  if (const auto& grammar = job->fields.grammar) {
    auto compiled = co_await compile_grammar(*job->model->engine, grammar->spec, grammar->param);
    if (!compiled) co_return co_await send_error(reply, compiled.error());
    job->fields.request.grammar = std::move(*compiled);
  }
  auto streams = submit(*job);
  if (!streams) co_return co_await send_error(reply, streams.error());
  const AnswerHead head = make_answer_head(kind, job->model->id);
  if (job->fields.stream) {
    co_await answer_stream(head, *job, *streams, reply);
  } else {
    co_await answer_whole(head, *job, *streams, reply);
  }
}

}  // namespace

awaitable<void> chat_completions(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  co_await run(AnswerKind::kChat, prepare_chat(models, request), reply);
}

awaitable<void> completions(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  co_await run(AnswerKind::kCompletion, prepare_completion(models, request), reply);
}

}  // namespace quern::openai
