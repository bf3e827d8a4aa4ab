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

ApiResult<Job> prepare(const ModelTable& models, const http::Request& request, Purpose purpose) {
  const auto read = read_generator_body(models, request);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model, adapter] = *read;
  auto parsed = parse_messages_request(body, default_sampling(*model), purpose);
  if (!parsed) return std::unexpected(parsed.error());
  TemplateInput input;
  input.messages = std::move(parsed->messages);
  input.tools = std::move(parsed->tools);
  input.continue_final_message = parsed->continue_final_message;
  input.add_generation_prompt = !parsed->continue_final_message;
  auto ids = encode_messages(*model, std::move(input));
  if (!ids) return std::unexpected(ids.error());
  Job job{.generation = {.model = model, .request = std::move(parsed->request)}, .stream = parsed->stream};
  job.generation.request.prompt_ids = std::move(*ids);
  job.generation.request.adapter = adapter;
  set_origin(job.generation.request, request);
  return job;
}

awaitable<void> answer_whole(const MessageHead& head, EventStreams& streams, http::Reply& reply) {
  std::string text;
  std::optional<FinishEvent> end;
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    if (event.token) text += event.token->text;
    if (event.finish) {
      text += event.finish->text;
      end = *event.finish;
    }
    co_return true;
  };
  co_await pump(reply, streams, sink);
  if (!end) co_return;  // the client is gone
  if (end->reason == FinishReason::kError) co_return co_await send_error(reply, finish_error(*end), error_body);
  co_await send_json(reply, message_body(head, text, *end));
}

awaitable<void> answer_stream(const MessageHead& head, int32_t prompt_tokens, EventStreams& streams,
                              http::Reply& reply) {
  co_await reply.start_stream(200, "text/event-stream; charset=utf-8", {});
  co_await reply.write(start_events(head, prompt_tokens));
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    std::string bytes;
    if (event.token && !event.token->text.empty()) bytes += text_event(event.token->text);
    if (event.finish && event.finish->reason == FinishReason::kError) {
      co_await reply.write(error_event(finish_error(*event.finish)));
      co_return false;
    }
    if (event.finish && !event.finish->text.empty()) bytes += text_event(event.finish->text);
    if (event.finish) bytes += end_events(*event.finish);
    co_return bytes.empty() || co_await reply.write(bytes);
  };
  co_await pump(reply, streams, sink);
  co_await reply.end_stream();
}

awaitable<void> messages(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  reply.set_header("Request-Id", request.id);
  const std::function<ApiResult<Job>()> make_job = [&] { return prepare(models, request, Purpose::kAnswer); };
  auto job = co_await offload(make_job);
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  auto streams = submit(job->generation);
  if (!streams) co_return co_await send_error(reply, streams.error(), error_body);
  MessageHead head;
  head.id = random_id("msg_");
  head.model = shown_name(job->generation);
  const auto prompt_tokens = static_cast<int32_t>(job->generation.request.prompt_ids.size());
  if (job->stream) {
    co_await answer_stream(head, prompt_tokens, *streams, reply);
  } else {
    co_await answer_whole(head, *streams, reply);
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
      {"POST", "/v1/messages", messages, Access::kKey, error_body},
      {"POST", "/v1/messages/count_tokens", count_tokens, Access::kKey, error_body},
  };
}

}  // namespace quern::anthropic
