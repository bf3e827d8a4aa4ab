#include "server/anthropic/routes.h"

#include "base/status.h"
#include "server/anthropic/answer.h"
#include "server/anthropic/request.h"
#include "server/generation.h"
#include "server/model_body.h"
#include "server/offload.h"

namespace quern::anthropic {
namespace {

using http::asio::awaitable;

struct Job {
  Generation generation;
  bool stream = false;
};

ChatPlanInput chat_input(MessagesRequest parsed) {
  ChatPlanInput input;
  input.prompt.messages = std::move(parsed.messages);
  input.prompt.kwargs = std::move(parsed.template_kwargs);
  input.prompt.continue_final_message = parsed.continue_final_message;
  input.prompt.add_generation_prompt = !parsed.continue_final_message;
  input.set_tools(std::move(parsed.tools));
  input.grammar = std::move(parsed.grammar);
  input.grammar_param = "output_config.format";
  input.thinking_budget = parsed.thinking_budget;
  input.thinking_param = "thinking.budget_tokens";
  return input;
}

ApiResult<Job> prepare(const ModelTable& models, const http::Request& request, Purpose purpose) {
  const auto read = read_generator_body(models, request);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model, adapter] = *read;
  auto parsed = parse_messages_request(body, default_sampling(*model), purpose);
  if (!parsed) return std::unexpected(parsed.error());
  Job job{.generation = {.model = model, .request = std::move(parsed->request)}, .stream = parsed->stream};
  job.generation.request.adapter = adapter;
  set_origin(job.generation.request, request);
  job.generation.reader.include_reasoning = parsed->show_thinking;
  job.generation.reader.call_id_prefix = "toolu_";
  if (const auto planned = plan_answer(job.generation, chat_input(std::move(*parsed))); !planned) {
    return std::unexpected(planned.error());
  }
  return job;
}

awaitable<void> answer_whole(const MessageHead& head, const Job& job, EventStreams& streams, http::Reply& reply) {
  AnswerReader answer = job.generation.make_reader();
  std::optional<FinishEvent> end;
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    if (event.token) answer.push(event.token->text);
    if (event.finish) {
      answer.push(event.finish->text);
      end = *event.finish;
    }
    co_return true;
  };
  co_await pump(reply, streams, Delivery::kWhole, sink);
  if (!end) co_return;  // the client is gone
  if (end->reason == FinishReason::kError) co_return co_await send_error(reply, finish_error(*end), error_body);
  answer.finish(end->reason);
  co_await send_json(reply, message_body(head, answer, *end));
}

awaitable<void> answer_stream(const MessageHead& head, const Job& job, EventStreams& streams, http::Reply& reply) {
  AnswerReader answer = job.generation.make_reader();
  co_await reply.start_stream(200, "text/event-stream; charset=utf-8", {});
  co_await reply.write(start_events(head, static_cast<int32_t>(job.generation.request.prompt_ids.size())));
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    std::string bytes;
    if (event.token) bytes += delta_events(answer, answer.push(event.token->text));
    if (event.finish && event.finish->reason == FinishReason::kError) {
      co_await reply.write(error_event(finish_error(*event.finish)));
      co_return false;
    }
    if (event.finish) {
      bytes += delta_events(answer, answer.push(event.finish->text));
      bytes += delta_events(answer, answer.finish(event.finish->reason));
      bytes += end_events(answer, *event.finish);
    }
    co_return bytes.empty() || co_await reply.write(bytes);
  };
  co_await pump(reply, streams, Delivery::kStreamed, sink);
  co_await reply.end_stream();
}

awaitable<void> messages(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  reply.set_header("Request-Id", request.id);
  const std::function<ApiResult<Job>()> make_job = [&] { return prepare(models, request, Purpose::kAnswer); };
  auto job = co_await offload(make_job);
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  auto streams = co_await start(job->generation, reply);
  if (!streams) co_return co_await send_error(reply, streams.error(), error_body);
  MessageHead head;
  head.id = random_id("msg_");
  head.model = shown_name(*job->generation.model, job->generation.request);
  if (job->stream) {
    co_await answer_stream(head, *job, *streams, reply);
  } else {
    co_await answer_whole(head, *job, *streams, reply);
  }
}

Json count_body(const Job& job) {
  return {{"input_tokens", job.generation.request.prompt_ids.size()}};
}

awaitable<void> count_tokens(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  reply.set_header("Request-Id", request.id);
  const std::function<ApiResult<Job>()> make_job = [&] { return prepare(models, request, Purpose::kCount); };
  auto job = co_await offload(make_job);
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  co_await send_json(reply, count_body(*job));
}

}  // namespace

Routes routes() {
  return {
      traced({"POST", "/v1/messages", messages, Access::kKey, error_body, error_event}),
      carried({"POST", "/v1/messages/count_tokens", count_tokens, Access::kKey, error_body, error_event}),
  };
}

}  // namespace quern::anthropic
