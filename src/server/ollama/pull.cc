// /api/pull: brings a model to this machine. It is served after the next start.
#include "platform/pull.h"

#include <mutex>
#include <thread>

#include "base/status.h"
#include "platform/model_name.h"
#include "server/ollama/answer.h"
#include "server/ollama/request.h"
#include "server/ollama/routes.h"

namespace quern::ollama {
namespace {

using http::asio::awaitable;

// Between the thread that downloads and the coroutine that tells: the newest state only, so a slow reader costs
// nothing.
struct PullState {
  std::mutex mutex;
  std::string file;
  int64_t done = 0, total = 0;
  std::optional<Status> result;
};

struct PullJob {
  std::string model;
  bool stream = true;
};

ApiResult<PullJob> prepare(const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto model = fields.string("model");
  const auto name = fields.string("name");
  fields.accept({"insecure"});
  PullJob job{.model = model ? *model : name.value_or(""), .stream = fields.boolean("stream").value_or(true)};
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto parsed = parse_model_name(job.model);
  if (!parsed) return std::unexpected(to_api_error(parsed.error()));
  // A client names models; it does not send this machine to addresses or into its own files.
  if (parsed->kind == ModelNameKind::kPath || parsed->kind == ModelNameKind::kUrl) {
    return bad_field("model", "model: must be a name of the catalogue or of a hub");
  }
  return job;
}

std::shared_ptr<PullState> start(const std::string& model, const std::shared_ptr<http::Signal>& signal) {
  auto state = std::make_shared<PullState>();
  std::thread([model, state, signal] {
    const PullProgress progress = [&](const std::string& file, int64_t done, int64_t total) {
      {
        const std::lock_guard lock(state->mutex);
        state->file = file;
        state->done = done;
        state->total = total;
      }
      signal->notify();
    };
    const auto pulled = pull_model(model, progress);
    {
      const std::lock_guard lock(state->mutex);
      state->result = pulled ? Status() : Status(std::unexpected(pulled.error()));
    }
    signal->notify();
  }).detach();
  return state;
}

std::string status_line(const std::string& status) {
  return dump_json({{"status", status}}) + "\n";
}

std::string progress_line(const PullState& state) {
  Json line = {{"status", "pulling " + state.file}, {"digest", state.file}, {"completed", state.done}};
  if (state.total > 0) line["total"] = state.total;
  return dump_json(line) + "\n";
}

// What there is to say now; `result` is set when the download has ended.
std::string news(PullState& state, std::optional<Status>& result) {
  const std::lock_guard lock(state.mutex);
  result = state.result;
  return state.file.empty() ? "" : progress_line(state);
}

// What the disk said names this machine's folders.
ApiError pull_error(const Error& error) {
  ApiError result = to_api_error(error);
  if (error.code == ErrorCode::kIo) result.message = "the model could not be stored on the server";
  return result;
}

}  // namespace

awaitable<void> pull(const ModelTable&, const http::Request& request, http::Reply& reply) {
  auto job = prepare(request);
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  const auto signal = reply.signal();
  const auto state = start(job->model, signal);
  if (job->stream) {
    co_await reply.start_stream(200, "application/x-ndjson", {});
    co_await reply.write(status_line("pulling manifest"));
  }
  std::string last;
  std::optional<Status> result;
  while (!reply.client_gone() && !reply.out_of_time()) {
    const std::string line = news(*state, result);
    if (job->stream && !line.empty() && line != last) co_await reply.write(line);
    last = line;
    if (result) break;
    co_await signal->wait();
  }
  if (!result) co_return;  // the download goes on; asking again waits for it
  if (job->stream) {
    const std::string end = *result ? status_line("success") : error_body(pull_error(result->error())) + "\n";
    co_await reply.write(end);
    co_return co_await reply.end_stream();
  }
  if (!*result) co_return co_await send_error(reply, pull_error(result->error()), error_body);
  co_await reply.send(200, "application/json", status_line("success"), {});
}

}  // namespace quern::ollama
