#include "server/responses/routes.h"

#include <algorithm>
#include <atomic>
#include <charconv>

#include "base/status.h"
#include "server/generation.h"
#include "server/model_body.h"
#include "server/offload.h"
#include "server/responses/answer.h"
#include "server/responses/items.h"
#include "server/responses/request.h"

namespace quern::responses {
namespace {

using http::asio::awaitable;

struct Job {
  Generation generation;
  ResponseRequest request;
  Json history;  // items before the answer
};

ApiError not_found(const std::string& id) {
  return {.status = 404,
          .message = fmt::format("Response with id '{}' not found.", id),
          .param = "id",
          .code = "response_not_found"};
}

ApiResult<StoredResponse> load(ResponseStore& store, const std::string& id) {
  auto found = store.get(id);
  if (!found) return std::unexpected(to_api_error(found.error()));
  if (!*found) return std::unexpected(not_found(id));
  return std::move(**found);
}

ApiResult<Job> prepare(ResponseStore& store, const ModelTable& models, const http::Request& request) {
  const auto read = read_generator_body(models, request);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model, adapter] = *read;
  auto parsed = parse_response_request(body, default_sampling(*model));
  if (!parsed) return std::unexpected(parsed.error());
  Json history = Json::array();
  if (!parsed->previous_id.empty()) {
    auto previous = load(store, parsed->previous_id);
    if (!previous) {
      previous.error().param = "previous_response_id";
      return std::unexpected(previous.error());
    }
    history = std::move(previous->history);
  }
  for (const Json& item : parsed->input) history.push_back(item);
  auto messages = messages_of(history, parsed->instructions);
  if (!messages) return std::unexpected(messages.error());
  ChatPlanInput input;
  input.prompt.messages = std::move(*messages);
  input.prompt.kwargs = parsed->template_kwargs;
  input.set_tools(std::move(parsed->tools));
  input.grammar = std::move(parsed->grammar);
  input.grammar_param = "text.format";
  Job job{.generation = {.model = model, .request = parsed->request, .prompt_field = "input"},
          .request = {},
          .history = std::move(history)};
  job.generation.request.adapter = adapter;
  set_origin(job.generation.request, request);
  const auto planned = plan_answer(job.generation, std::move(input));
  if (!planned) return std::unexpected(planned.error());
  job.request = std::move(*parsed);
  return job;
}

// Keeps the response as it stands, when its request said so.
Status keep(ResponseStore& store, const Job& job, const ResponseObject& response) {
  if (!job.request.store) return {};
  StoredResponse stored{.body = response.json(), .input = job.request.input, .history = job.history};
  for (const Json& item : response.json()["output"]) stored.history.push_back(item);
  return store.put(stored);
}

awaitable<void> answer_whole(ResponseStore& store, const Job& job, ResponseObject& response, EventStreams& streams,
                             http::Reply& reply) {
  Answer answer(job.generation.make_reader());
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    answer.add(event);
    co_return true;
  };
  co_await pump(reply, streams, Delivery::kWhole, sink);
  if (!answer.end()) co_return;  // the client is gone
  if (answer.end()->reason == FinishReason::kError) co_return co_await send_error(reply, finish_error(*answer.end()));
  response.finish(answer);
  const Status kept = keep(store, job, response);
  if (!kept) co_return co_await send_error(reply, to_api_error(kept.error()));
  co_await send_json(reply, response.json());
}

awaitable<void> answer_stream(ResponseStore& store, const Job& job, ResponseObject& response, EventStreams& streams,
                              http::Reply& reply) {
  co_await reply.start_stream(200, "text/event-stream; charset=utf-8", {});
  co_await reply.write(response.begin_events());
  Answer answer(job.generation.make_reader());
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    std::string bytes = response.delta_events(answer, answer.add(event));
    if (event.finish && event.finish->reason != FinishReason::kError) {
      std::string end = response.end_events(answer);
      // Kept before the client hears of the end: it may ask for it at once.
      const Status kept = keep(store, job, response);
      bytes += kept ? end : response.fail_event(to_api_error(kept.error()));
    } else if (event.finish) {
      bytes += response.fail_event(finish_error(*event.finish));
    }
    co_return bytes.empty() || co_await reply.write(bytes);
  };
  co_await pump(reply, streams, Delivery::kStreamed, sink);
  co_await reply.end_stream();
}

// What a background response does once its first reply is out.
struct BackgroundWork {
  ResponseStore& store;
  Job job;
  ResponseObject response;
  EventStreams streams;
  std::atomic<bool> ended = false;
};

awaitable<void> run_background(std::shared_ptr<BackgroundWork> work, DetachedReply& reply) {
  Answer answer(work->job.generation.make_reader());
  const EventSink sink = [&](size_t, const Event& event) -> awaitable<bool> {
    answer.add(event);
    co_return true;
  };
  co_await pump(reply, work->streams, Delivery::kStreamed, sink);
  work->streams.clear();
  if (!answer.end()) {
    work->response.set_status("cancelled");
  } else if (answer.end()->reason == FinishReason::kError) {
    work->response.fail(finish_error(*answer.end()));
  } else {
    work->response.finish(answer);
  }
  static_cast<void>(keep(work->store, work->job, work->response));  // a poll then still sees it running
  work->ended.store(true);
  work->store.clear_running(work->response.id());
}

// Starts the work and gives what the first reply says.
ApiResult<Json> start_background(ResponseStore& store, Job job, ResponseObject response, EventStreams streams) {
  if (const Status kept = keep(store, job, response); !kept) return std::unexpected(to_api_error(kept.error()));
  const std::string id = response.id();
  Json first = response.json();
  auto work = std::make_shared<BackgroundWork>(store, std::move(job), std::move(response), std::move(streams));
  const auto reply = store.background().start([work](DetachedReply& own) { return run_background(work, own); });
  if (!reply) {
    return std::unexpected(
        ApiError{.status = 429, .message = "too many background responses run", .type = "rate_limit_error"});
  }
  store.set_running(id, reply);
  if (work->ended.load()) store.clear_running(id);  // it was faster than we
  return first;
}

awaitable<void> create(ResponseStore& store, const ModelTable& models, const http::Request& request,
                       http::Reply& reply) {
  const std::function<ApiResult<Job>()> make_job = [&] { return prepare(store, models, request); };
  auto job = co_await offload(make_job);
  if (!job) co_return co_await send_error(reply, job.error());
  auto streams = co_await start(job->generation, reply);
  if (!streams) co_return co_await send_error(reply, streams.error());
  ResponseObject response(job->request, shown_name(*job->generation.model, job->generation.request));
  if (job->request.background) {
    response.set_status("queued");
    // Nobody counts behind this request's end, so what it may write counts now.
    const Request& asked = job->generation.request;
    const int64_t room = job->generation.model->max_model_len() - std::ssize(asked.prompt_ids);
    reply.count_tokens(asked.max_tokens > 0 ? std::min<int64_t>(asked.max_tokens, room) : room);
    const auto first = start_background(store, std::move(*job), std::move(response), std::move(*streams));
    if (!first) co_return co_await send_error(reply, first.error());
    co_await send_json(reply, *first);
  } else if (job->request.stream) {
    co_await answer_stream(store, *job, response, *streams, reply);
  } else {
    co_await answer_whole(store, *job, response, *streams, reply);
  }
}

awaitable<void> answer(const ApiResult<Json>& body, http::Reply& reply) {
  return body ? send_json(reply, *body) : send_error(reply, body.error());
}

ApiResult<Json> retrieve(ResponseStore& store, const http::Request& request) {
  auto stored = load(store, request.params[0]);
  if (!stored) return std::unexpected(stored.error());
  return std::move(stored->body);
}

ApiResult<Json> remove(ResponseStore& store, const http::Request& request) {
  const std::string& id = request.params[0];
  store.cancel_running(id);
  const auto removed = store.remove(id);
  if (!removed) return std::unexpected(to_api_error(removed.error()));
  if (!*removed) return std::unexpected(not_found(id));
  return Json{{"id", id}, {"object", "response"}, {"deleted", true}};
}

ApiResult<Json> cancel(ResponseStore& store, const http::Request& request) {
  const std::string& id = request.params[0];
  auto stored = load(store, id);
  if (!stored) return std::unexpected(stored.error());
  if (!stored->body.value("background", false)) {
    return bad_field("id", "Only responses that run in the background can be cancelled.");
  }
  if (store.cancel_running(id)) {
    stored->body["status"] = "cancelled";
  } else {
    stored = load(store, id);  // it ended meanwhile
    if (!stored) return std::unexpected(stored.error());
  }
  return std::move(stored->body);
}

// Newest first unless order=asc, after an id, at most limit.
ApiResult<Json> input_items(ResponseStore& store, const http::Request& request) {
  auto stored = load(store, request.params[0]);
  if (!stored) return std::unexpected(stored.error());
  size_t limit = 20;
  if (const auto text = request.query_value("limit")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
    if (error != std::errc() || end != text->data() + text->size() || limit < 1 || limit > 100) {
      return bad_field("limit", "limit: must be 1 to 100");
    }
  }
  const auto order = request.query_value("order").value_or("desc");
  if (order != "asc" && order != "desc") return bad_field("order", "order: must be asc or desc");
  std::vector<Json> items(stored->input.begin(), stored->input.end());
  if (order == "desc") std::ranges::reverse(items);
  if (const auto after = request.query_value("after")) {
    const auto place = std::ranges::find_if(items, [&](const Json& item) { return item["id"] == *after; });
    if (place == items.end()) return bad_field("after", "after: there is no such item");
    items.erase(items.begin(), place + 1);
  }
  const bool has_more = items.size() > limit;
  if (has_more) items.resize(limit);
  return Json{{"object", "list"},
              {"data", items},
              {"first_id", items.empty() ? Json(nullptr) : items.front()["id"]},
              {"last_id", items.empty() ? Json(nullptr) : items.back()["id"]},
              {"has_more", has_more}};
}

using Look = ApiResult<Json> (*)(ResponseStore&, const http::Request&);

RouteFunction look_up(ResponseStore& store, Look look) {
  return [&store, look](const ModelTable&, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    return answer(look(store, request), reply);
  };
}

}  // namespace

Routes routes(ResponseStore& store) {
  const RouteFunction create_route = [&store](const ModelTable& models, const http::Request& request,
                                              http::Reply& reply) -> awaitable<void> {
    return create(store, models, request, reply);
  };
  return {
      traced({"POST", "/v1/responses", create_route}),
      {"GET", "/v1/responses/{response_id}", look_up(store, retrieve)},
      {"DELETE", "/v1/responses/{response_id}", look_up(store, remove)},
      {"POST", "/v1/responses/{response_id}/cancel", look_up(store, cancel)},
      {"GET", "/v1/responses/{response_id}/input_items", look_up(store, input_items)},
  };
}

}  // namespace quern::responses
