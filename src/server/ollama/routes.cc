#include "server/ollama/routes.h"

#include "base/status.h"
#include "server/offload.h"
#include "server/ollama/answer.h"
#include "server/ollama/request.h"

namespace quern::ollama {
namespace {

using http::asio::awaitable;
using people::Scope;

using Parse = ApiResult<GenerationRequest> (*)(const Json&, const ModelTable::Choice&);

ApiResult<GenerationRequest> prepare(const ModelTable& models, const http::Request& request, Parse parse) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  const auto choice = find_model(models, *body);
  if (!choice) return std::unexpected(choice.error());
  if (!choice->model->engine) {
    return std::unexpected(ApiError{.message = fmt::format("\"{}\" does not support generate", choice->model->id)});
  }
  auto parsed = parse(*body, *choice);
  if (parsed) set_origin(parsed->generation.request, request);
  return parsed;
}

std::string line(const Json& object) {
  return dump_json(object) + "\n";
}

awaitable<void> answer_whole(AnswerKind kind, const Generation& generation, EventStreams& streams, http::Reply& reply) {
  const auto begin = Clock::now();
  AnswerReader answer = generation.make_reader();
  std::optional<FinishEvent> finish;
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    if (event.token) answer.push(event.token->text);
    if (event.finish) {
      answer.push(event.finish->text);
      finish = *event.finish;
    }
    co_return true;
  };
  co_await pump(reply, streams, Delivery::kWhole, sink);
  if (!finish) co_return;  // the client is gone
  if (finish->reason == FinishReason::kError) co_return co_await send_error(reply, finish_error(*finish), error_body);
  answer.finish(finish->reason);
  co_await send_json(reply,
                     end(kind, shown_name(*generation.model, generation.request), all_said(answer), *finish, begin));
}

awaitable<void> answer_stream(AnswerKind kind, const Generation& generation, EventStreams& streams,
                              http::Reply& reply) {
  const auto begin = Clock::now();
  const std::string& model = shown_name(*generation.model, generation.request);
  AnswerReader answer = generation.make_reader();
  co_await reply.start_stream(200, "application/x-ndjson", {});
  const auto lines = [&](const std::vector<PartDelta>& deltas, bool is_end) {
    std::string result;
    for (const Said& said : new_said(answer, deltas, is_end)) result += line(part(kind, model, said));
    return result;
  };
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    std::string bytes;
    if (event.token) bytes += lines(answer.push(event.token->text), false);
    if (event.finish && event.finish->reason == FinishReason::kError) {
      co_await reply.write(error_line(finish_error(*event.finish)));
      co_return false;
    }
    if (event.finish) {
      bytes += lines(answer.push(event.finish->text), false);
      bytes += lines(answer.finish(event.finish->reason), true);
      bytes += line(end(kind, model, {}, *event.finish, begin));
    }
    co_return bytes.empty() || co_await reply.write(bytes);
  };
  co_await pump(reply, streams, Delivery::kStreamed, sink);
  co_await reply.end_stream();
}

awaitable<void> answer(AnswerKind kind, Parse parse, const ModelTable& models, const http::Request& request,
                       http::Reply& reply) {
  const std::function<ApiResult<GenerationRequest>()> make_job = [&] { return prepare(models, request, parse); };
  auto job = co_await offload(make_job);
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  if (job->load_only)
    co_return co_await send_json(reply, loaded(kind, shown_name(*job->generation.model, job->generation.request)));
  auto streams = co_await start(job->generation, reply);
  if (!streams) co_return co_await send_error(reply, streams.error(), error_body);
  if (job->stream) {
    co_await answer_stream(kind, job->generation, *streams, reply);
  } else {
    co_await answer_whole(kind, job->generation, *streams, reply);
  }
}

awaitable<void> chat(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  return answer(AnswerKind::kChat, parse_chat, models, request, reply);
}

awaitable<void> generate(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  return answer(AnswerKind::kGenerate, parse_generate, models, request, reply);
}

awaitable<void> version(const ModelTable&, const http::Request&, http::Reply& reply) {
  return send_json(reply, {{"version", "0.1.0"}});
}

}  // namespace

Routes routes(const Fleet* fleet) {
  return {
      traced({"POST", "/api/chat", chat, Access::kKey, error_body, error_line}),
      traced({"POST", "/api/generate", generate, Access::kKey, error_body, error_line}),
      traced({"POST", "/api/embed", embed, Access::kKey, error_body, error_line}),
      traced({"POST", "/api/embeddings", embeddings, Access::kKey, error_body, error_line}),
      needs(Scope::kModelsList, {"GET", "/api/tags", tags(fleet), Access::kKey, error_body}),
      needs(Scope::kModelsList, {"GET", "/api/ps", ps(fleet), Access::kKey, error_body}),
      carried({"POST", "/api/show", show(fleet), Access::kKey, error_body, error_line}),
      needs(Scope::kModelsWrite, {"POST", "/api/pull", pull, Access::kKey, error_body}),
      needs(Scope::kSignedIn, {"GET", "/api/version", version, Access::kKey, error_body}),
  };
}

}  // namespace quern::ollama
