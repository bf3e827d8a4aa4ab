#include "server/jobs/routes.h"

#include <charconv>

#include "base/status.h"
#include "server/offload.h"
#include "server/paging.h"

namespace quern::jobs {
namespace {

using http::asio::awaitable;
using people::Scope;

constexpr int64_t kLogLinesAtOnce = 1000;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json time_or_null(int64_t time) {
  return time > 0 ? Json(time) : Json(nullptr);
}

std::string models_of(const JobView& job) {
  std::string names;
  for (const std::string& model : job.models) names += (names.empty() ? "" : ", ") + model;
  return names;
}

// Who names files of the server reads and writes with its rights.
bool may_name_paths(const http::Request& request) {
  return !request.principal || request.principal->scopes.has(Scope::kAdmin);
}

ApiResult<Json> shown(const Result<JobView>& job) {
  if (!job) return std::unexpected(jobs_error(job.error()));
  return describe(*job);
}

ApiResult<Json> add(Jobs& jobs, const http::Request& request) {
  const auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  auto spec = read_spec(jobs, *body);
  if (!spec) return std::unexpected(jobs_error(spec.error()));
  if (!spec->input_path.empty() && !may_name_paths(request)) {
    return std::unexpected(ApiError{.status = 403,
                                    .message = "input_path: files of the server are the admin's to name",
                                    .type = "permission_error",
                                    .param = "input_path"});
  }
  return shown(jobs.add(std::move(*spec)));
}

ApiResult<Json> list(Jobs& jobs, const http::Request& request) {
  const auto page = read_page(request, 100, 1000);
  if (!page) return std::unexpected(page.error());
  const auto found = jobs.jobs(JobStore::Kind::kAll, page->after, page->limit + 1);
  if (!found) return std::unexpected(to_api_error(found.error()));
  std::vector<Json> items;
  for (const JobView& job : *found) items.push_back(describe(job));
  return list_body(std::move(items), *page);
}

ApiResult<Json> show(Jobs& jobs, const http::Request& request) {
  return shown(jobs.job(request.params[0]));
}

ApiResult<Json> cancel(Jobs& jobs, const http::Request& request) {
  return shown(jobs.cancel(request.params[0]));
}

ApiResult<Json> pause(Jobs& jobs, const http::Request& request) {
  return shown(jobs.pause(request.params[0]));
}

ApiResult<Json> resume(Jobs& jobs, const http::Request& request) {
  return shown(jobs.resume(request.params[0]));
}

ApiResult<Json> remove(Jobs& jobs, const http::Request& request) {
  if (const Status removed = jobs.remove(request.params[0]); !removed) {
    return std::unexpected(jobs_error(removed.error()));
  }
  return Json{{"id", request.params[0]}, {"object", "job"}, {"deleted", true}};
}

ApiResult<Json> log(Jobs& jobs, const http::Request& request) {
  int64_t from = 1;
  if (const auto text = request.query_value("from")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), from);
    if (error != std::errc() || end != text->data() + text->size() || from < 0) {
      return bad_field("from", "from: must be the number of a line");
    }
  }
  const auto lines = jobs.log(request.params[0], from, kLogLinesAtOnce);
  if (!lines) return std::unexpected(jobs_error(lines.error()));
  Json data = Json::array();
  for (const JobLogLine& line : *lines) {
    data.push_back({{"number", line.number}, {"time", line.time}, {"text", line.text}});
  }
  const int64_t next = lines->empty() ? from : lines->back().number + 1;
  return Json{{"object", "list"}, {"data", std::move(data)}, {"next", next}};
}

using Action = ApiResult<Json> (*)(Jobs&, const http::Request&);

awaitable<void> act(Jobs& jobs, Action action, const http::Request& request, http::Reply& reply) {
  const std::function<ApiResult<Json>()> run = [&] { return action(jobs, request); };
  const auto body = co_await offload(run);
  if (!body) co_return co_await send_error(reply, body.error());
  co_await send_json(reply, *body);
}

RouteFunction route(Jobs& jobs, Action action) {
  return [&jobs, action](const ModelTable&, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    return act(jobs, action, request, reply);
  };
}

}  // namespace

ApiError jobs_error(const Error& error) {
  ApiError result = to_api_error(error);
  if (error.code == ErrorCode::kUnsupported) {
    result.status = 409;
    result.code = "job_state";
  } else if (error.code == ErrorCode::kInvalidArgument) {
    const size_t end = error.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
    if (end != 0 && end != std::string::npos && error.message[end] == ':') result.param = error.message.substr(0, end);
  }
  return result;
}

Json describe(const JobView& job) {
  return {{"id", job.id},
          {"object", "job"},
          {"name", job.spec.name},
          {"state", job_state_name(job.state)},
          {"model", models_of(job)},
          {"priority", job.spec.priority},
          {"window", job.spec.window},
          {"deadline", time_or_null(job.spec.deadline)},
          {"created", job.created},
          {"started", time_or_null(job.started)},
          {"ended", time_or_null(job.published ? job.ended : 0)},  // its results are there
          {"counts", {{"total", job.total}, {"done", job.done}, {"failed", job.failed}}},
          {"input_file_id", text_or_null(job.spec.input_file_id)},
          {"output_file_id", text_or_null(job.output_file_id)},
          {"error_file_id", text_or_null(job.error_file_id)},
          {"input_path", text_or_null(job.spec.input_path)},
          {"output_path", text_or_null(job.spec.output_path)},
          {"error_path", text_or_null(job.spec.error_path)},
          {"max_concurrency", job.spec.max_concurrency},
          {"busy_concurrency", job.spec.busy_concurrency},
          {"retries", job.spec.retries},
          {"message", job.message}};
}

Result<JobSpec> read_spec(Jobs& jobs, const Json& body) {
  const auto named = body.is_object() ? body.find("template") : body.end();
  if (!body.is_object() || named == body.end()) return job_spec_from_json(body, job_clock());
  if (!named->is_string()) return invalid_argument("template: must be the name of a job");
  QUERN_ASSIGN(const JobSpec before, jobs.named(named->get<std::string>()));
  Json merged = before.to_json();
  for (const char* field : {"endpoint", "metadata", "deadline"}) merged.erase(field);
  for (const auto& item : body.items()) {
    if (item.key() != "template") merged[item.key()] = item.value();
  }
  for (auto it = merged.begin(); it != merged.end();) {
    it = it->is_string() && it->get_ref<const std::string&>().empty() ? merged.erase(it) : std::next(it);
  }
  return job_spec_from_json(merged, job_clock());
}

Routes routes(Jobs& jobs) {
  return {
      needs(Scope::kJobsWrite, {"POST", "/v1/jobs", route(jobs, add)}),
      needs(Scope::kJobsRead, {"GET", "/v1/jobs", route(jobs, list)}),
      needs(Scope::kJobsRead, {"GET", "/v1/jobs/{job_id}", route(jobs, show)}),
      needs(Scope::kJobsWrite, {"DELETE", "/v1/jobs/{job_id}", route(jobs, remove)}),
      needs(Scope::kJobsWrite, {"POST", "/v1/jobs/{job_id}/cancel", route(jobs, cancel)}),
      needs(Scope::kJobsWrite, {"POST", "/v1/jobs/{job_id}/pause", route(jobs, pause)}),
      needs(Scope::kJobsWrite, {"POST", "/v1/jobs/{job_id}/resume", route(jobs, resume)}),
      needs(Scope::kJobsRead, {"GET", "/v1/jobs/{job_id}/log", route(jobs, log)}),
  };
}

}  // namespace quern::jobs
