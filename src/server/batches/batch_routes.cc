#include <algorithm>

#include "base/status.h"
#include "server/batches/routes.h"
#include "server/fields.h"
#include "server/offload.h"
#include "server/paging.h"

namespace quern::batches {
namespace {

using http::asio::awaitable;
using people::Scope;

constexpr int64_t kWindowSeconds = 24 * 3600;
constexpr int32_t kBusyConcurrency = 1;  // a batch ends within its day, whatever clients do

struct Context {
  FileStore& store;
  Jobs& jobs;
};

ApiError no_batch(const std::string& id) {
  return {.status = 404, .message = fmt::format("No batch found with id '{}'.", id), .param = "id"};
}

const char* status_of(const JobView& job) {
  switch (job.state) {
    case JobState::kQueued:
    case JobState::kWaitingWindow: return job.started > 0 ? "in_progress" : "validating";
    case JobState::kRunning:
    case JobState::kPaused: return "in_progress";
    case JobState::kCompleted: return "completed";
    case JobState::kFailed: return "failed";
    case JobState::kCancelled: return job.published ? "cancelled" : "cancelling";
    case JobState::kExpired: return "expired";
  }
  return "failed";
}

Json describe(const JobView& job) {
  const auto text = [](const std::string& id) { return id.empty() ? Json(nullptr) : Json(id); };
  const auto time = [](bool is_set, int64_t seconds) { return is_set ? Json(seconds) : Json(nullptr); };
  const auto ended = [&](JobState state) { return time(job.state == state, job.ended); };
  const bool cancelled = job.state == JobState::kCancelled;
  return {{"id", job.id},
          {"object", "batch"},
          {"endpoint", job.spec.endpoint},
          {"errors", nullptr},
          {"input_file_id", job.spec.input_file_id},
          {"completion_window", "24h"},
          {"status", status_of(job)},
          {"output_file_id", text(job.output_file_id)},
          {"error_file_id", text(job.error_file_id)},
          {"created_at", job.created},
          {"expires_at", job.spec.deadline},
          {"request_counts", {{"total", job.total}, {"completed", job.done}, {"failed", job.failed}}},
          {"metadata", job.spec.metadata},
          {"in_progress_at", time(job.started > 0, job.started)},
          {"finalizing_at", time(job.published, job.ended)},
          {"completed_at", ended(JobState::kCompleted)},
          {"failed_at", ended(JobState::kFailed)},
          {"expired_at", ended(JobState::kExpired)},
          {"cancelling_at", time(cancelled, job.ended)},
          {"cancelled_at", time(cancelled && job.published, job.ended)}};
}

ApiResult<Json> create(const Context& context, const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto file_id = fields.string("input_file_id");
  if (!file_id) fields.fault("input_file_id", "input_file_id: is missing");
  const auto endpoint = fields.string("endpoint").value_or("");
  if (std::ranges::find(kJobEndpoints, endpoint) == kJobEndpoints.end()) {
    fields.fault("endpoint", fmt::format("endpoint: \"{}\" does not run in batches", endpoint));
  }
  if (fields.string("completion_window").value_or("24h") != "24h") {
    fields.fault("completion_window", "completion_window: must be 24h");
  }
  const Json* metadata = fields.object("metadata");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto file = context.store.file(*file_id);
  if (!file) return std::unexpected(to_api_error(file.error()));
  if (!*file) {
    return std::unexpected(
        ApiError{.status = 404, .message = "No such File object: " + *file_id, .param = "input_file_id"});
  }
  if ((*file)->purpose != "batch") return bad_field("input_file_id", "input_file_id: its purpose is not batch");
  JobSpec spec;
  spec.input_file_id = *file_id;
  spec.endpoint = endpoint;
  spec.deadline = job_clock() + kWindowSeconds;
  spec.busy_concurrency = kBusyConcurrency;
  if (metadata != nullptr) spec.metadata = *metadata;
  const auto job = context.jobs.add(std::move(spec));
  if (job) return describe(*job);
  ApiError error = to_api_error(job.error());
  if (error.status == 400) error.param = "input_file_id";
  return std::unexpected(std::move(error));
}

ApiResult<JobView> find(Jobs& jobs, const std::string& id) {
  auto job = jobs.job(id);
  if (!job && job.error().code != ErrorCode::kNotFound) return std::unexpected(to_api_error(job.error()));
  if (!job || !job->spec.is_batch()) return std::unexpected(no_batch(id));
  return std::move(*job);
}

ApiResult<Json> show_batch(const Context& context, const http::Request& request) {
  const auto job = find(context.jobs, request.params[0]);
  if (!job) return std::unexpected(job.error());
  return describe(*job);
}

ApiResult<Json> list_batches(const Context& context, const http::Request& request) {
  const auto page = read_page(request, 20, 100);
  if (!page) return std::unexpected(page.error());
  const auto jobs = context.jobs.jobs(JobStore::Kind::kBatches, page->after, page->limit + 1);
  if (!jobs) return std::unexpected(to_api_error(jobs.error()));
  std::vector<Json> batches;
  for (const JobView& job : *jobs) batches.push_back(describe(job));
  return list_body(std::move(batches), *page);
}

ApiResult<Json> cancel(const Context& context, const http::Request& request) {
  const auto job = find(context.jobs, request.params[0]);
  if (!job) return std::unexpected(job.error());
  const auto cancelled = context.jobs.cancel(job->id);
  if (cancelled) return describe(*cancelled);
  if (cancelled.error().code != ErrorCode::kUnsupported) return std::unexpected(to_api_error(cancelled.error()));
  return std::unexpected(ApiError{.status = 409,
                                  .message = fmt::format("Cannot cancel a batch with status '{}'.", status_of(*job)),
                                  .param = "id"});
}

using BatchAction = ApiResult<Json> (*)(const Context&, const http::Request&);

awaitable<void> act_on_batch(const Context context, BatchAction action, const http::Request& request,
                             http::Reply& reply) {
  const std::function<ApiResult<Json>()> run = [&] { return action(context, request); };
  const auto body = co_await offload(run);
  if (!body) co_return co_await send_error(reply, body.error());
  co_await send_json(reply, *body);
}

}  // namespace

Routes batch_routes(FileStore& store, Jobs& jobs) {
  const auto route = [&store, &jobs](BatchAction action) -> RouteFunction {
    return [&store, &jobs, action](const ModelTable&, const http::Request& request,
                                   http::Reply& reply) -> awaitable<void> {
      const Context context{.store = store, .jobs = jobs};
      return act_on_batch(context, action, request, reply);
    };
  };
  return {
      needs(Scope::kJobsWrite, {"POST", "/v1/batches", route(create)}),
      needs(Scope::kJobsRead, {"GET", "/v1/batches", route(list_batches)}),
      needs(Scope::kJobsRead, {"GET", "/v1/batches/{batch_id}", route(show_batch)}),
      needs(Scope::kJobsWrite, {"POST", "/v1/batches/{batch_id}/cancel", route(cancel)}),
  };
}

}  // namespace quern::batches
