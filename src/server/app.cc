#include "server/app.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>

#include "base/status.h"
#include "server/anthropic/routes.h"
#include "server/basic/routes.h"
#include "server/batches/routes.h"
#include "server/catalog/routes.h"
#include "server/devices/routes.h"
#include "server/jobs/line_runner.h"
#include "server/jobs/routes.h"
#include "server/nodes/routes.h"
#include "server/ollama/routes.h"
#include "server/openai/routes.h"
#include "server/people/routes.h"
#include "server/platform/routes.h"
#include "server/rerank/routes.h"
#include "server/responses/routes.h"
#include "server/trace_context.h"
#include "server/xinference/routes.h"

namespace quern {
namespace {

using http::asio::awaitable;
using Clock = std::chrono::steady_clock;

constexpr size_t kTraceStateMax = 512;  // bytes the W3C asks everybody to pass on

struct Choice {
  const Route* route = nullptr;
  const Route* same_path = nullptr;  // a route of this path with another method
  std::vector<std::string> params;
  std::string methods;  // of the path: "GET, DELETE"
};

Choice choose(const Routes& routes, const http::Request& request) {
  Choice choice;
  for (const Route& route : routes) {
    auto params = match_path(route.path, request.path);
    if (!params) continue;
    if (!choice.methods.empty()) choice.methods += ", ";
    choice.methods += route.method;
    if (choice.same_path == nullptr) choice.same_path = &route;
    if (choice.route != nullptr || route.method != request.method) continue;
    choice.route = &route;
    choice.params = std::move(*params);
  }
  return choice;
}

// Whose errors a client of an unknown path reads: those of the routes beside it, "/api/…" or "/v1/messages/…".
ErrorBody error_body_near(const Routes& routes, std::string_view path) {
  for (const Route& route : routes) {
    const std::string_view known = route.path;
    if (route.error_body == openai_error_body) continue;
    const size_t depth = known.starts_with("/v1/") ? 4 : 1;
    const std::string_view folder = known.substr(0, known.find('/', depth));
    if (path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/'))
      return route.error_body;
  }
  return openai_error_body;
}

// "/prefix/x" is "/x": a proxy in front may strip the prefix or leave it.
void strip_root_path(const std::string& root, http::Request& request) {
  if (root.empty() || !request.path.starts_with(root)) return;
  const std::string_view rest = std::string_view(request.path).substr(root.size());
  if (rest.starts_with('/')) request.path = std::string(rest);
}

bool origin_allowed(const AppOptions& options, std::string_view origin) {
  return std::ranges::any_of(options.cors_origins,
                             [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

// Headers that let a page of an allowed origin read any reply, errors included.
void add_cors(const AppOptions& options, const http::Request& request, http::Reply& reply) {
  const auto origin = request.header("origin");
  if (options.cors_origins.empty() || !origin) return;
  reply.set_header("Vary", "Origin");
  if (!origin_allowed(options, *origin) || origin->size() > 1024) return;
  reply.set_header("Access-Control-Allow-Origin", std::string(*origin));
  reply.set_header("Access-Control-Expose-Headers",
                   "X-Request-Id, Retry-After, X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests, "
                   "X-Ratelimit-Reset-Requests, "
                   "X-Ratelimit-Limit-Tokens, X-Ratelimit-Remaining-Tokens, X-Ratelimit-Reset-Tokens");
}

// A preflight never carries a key.
awaitable<void> answer_options(const AppOptions& options, const http::Request& request, const Choice& choice,
                               http::Reply& reply) {
  reply.set_header("Allow", choice.methods + ", OPTIONS");
  const auto origin = request.header("origin");
  if (origin && origin_allowed(options, *origin)) {
    reply.set_header("Access-Control-Allow-Methods", choice.methods + ", OPTIONS");
    const auto wanted = request.header("access-control-request-headers");
    if (wanted && wanted->size() <= 4096) reply.set_header("Access-Control-Allow-Headers", std::string(*wanted));
    reply.set_header("Access-Control-Max-Age", "600");
  }
  return reply.send(204, "", "", {});
}

ApiError unavailable(std::string message) {
  return {.status = 503, .message = std::move(message), .type = "service_unavailable"};
}

ApiError internal_error() {
  return {.status = 500, .message = "internal error", .type = "internal_error"};
}

Json failure_fields(const http::Request& request, const std::string& reason) {
  return {{"request_id", request.id}, {"reason", reason}};
}

// Counts a client's request while it lives.
class ClientHere {
 public:
  ClientHere(std::atomic<int64_t>& count, int64_t requests) : count_(count), requests_(requests) {
    count_.fetch_add(requests_, std::memory_order_relaxed);
  }
  ~ClientHere() { count_.fetch_sub(requests_, std::memory_order_relaxed); }
  ClientHere(const ClientHere&) = delete;

 private:
  std::atomic<int64_t>& count_;
  const int64_t requests_;
};

void append(Routes& all, Routes more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

Result<std::unique_ptr<App>> App::create(const ModelTable& models, Metrics& metrics, const Log& log,
                                         AppOptions options) {
  std::unique_ptr<App> app(new App(models, metrics, log, std::move(options)));
  QUERN_TRY(app->open_stores());
  if (Fleet* fleet = app->options_.fleet) {
    QUERN_ASSIGN(app->door_, door::Door::create(*fleet, log, {.load_timeout = app->options_.load_timeout, .pool = {}}));
  }
  app->collect_routes();
  if (!app->options_.tracing.url.empty()) {
    app->spans_ = std::make_unique<SpanExporter>(app->options_.tracing, metrics.spans(), log);
  }
  return app;
}

Status App::open_stores() {
  const std::string schema = std::string(responses::ResponseStore::kSchema) + batches::FileStore::kSchema;
  auto database = Database::open(options_.store_path, schema);
  if (!database) {
    log_.write(LogLevel::kWarning, "responses and files are kept in memory only: " + database.error().message);
    database = Database::open(":memory:", schema);
    if (!database) return std::unexpected(database.error());
  }
  database_ = std::move(*database);
  responses_ = std::make_unique<responses::ResponseStore>(*database_, background_);
  files_ = std::make_unique<batches::FileStore>(*database_);
  return open_jobs();
}

Status App::open_jobs() {
  JobsOptions jobs;
  jobs.folder = options_.jobs_path;
  jobs.paths_below = options_.jobs_files;
  jobs.read_file = [this](const std::string& id) { return files_->content(id); };
  jobs.keep_file = [this](const std::string& id, const std::string& name, std::string text) {
    return files_->keep_file(id, name, std::move(text));
  };
  jobs.run_line = [this](LineCall call, std::function<void(LineAnswer)> done) {
    return jobs::run_line(background_, serve_line_, std::move(call), std::move(done));
  };
  jobs.look_at = [this](const std::string& model) { return look_at(model); };
  jobs.log = [this](const std::string& note) { log_.write(LogLevel::kWarning, note); };
  if (!jobs.folder.empty()) {
    auto opened = Jobs::open(jobs);
    if (opened) {
      jobs_ = std::move(*opened);
      return {};
    }
    log_.write(LogLevel::kWarning, "jobs are kept until this server ends only: " + opened.error().message);
  }
  std::string folder = (std::filesystem::temp_directory_path() / "quern-jobs-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return io_error(fmt::format("{}: cannot be made", folder));
  own_jobs_folder_ = folder;
  jobs.folder = folder;
  QUERN_ASSIGN(jobs_, Jobs::open(std::move(jobs)));
  return {};
}

App::~App() {
  jobs_.reset();
  std::error_code ignored;
  if (!own_jobs_folder_.empty()) std::filesystem::remove_all(own_jobs_folder_, ignored);
}

std::filesystem::path App::jobs_folder() const {
  if (own_jobs_folder_.empty()) return options_.jobs_path;
  return own_jobs_folder_;
}

PlannedModel App::look_at(const std::string& model) const {
  PlannedModel there;
  if (models_.choose_any(model)) {
    there.clients = local_clients_.load(std::memory_order_relaxed);
  } else if (const auto clients = door_ ? door_->clients(model) : std::nullopt) {
    there.clients = *clients;
  } else {
    there.known = false;
  }
  return there;
}

void App::collect_routes() {
  const platform::Context context{.fleet = options_.fleet,
                                  .changes_allowed = options_.management_allowed,
                                  .running = &running_,
                                  .door = door_.get()};
  append(routes_, basic::routes(*this));
  // Before /v1/models/{uid*}, which takes any name.
  append(routes_, xinference::routes(context));
  append(routes_, platform::routes(context));
  append(routes_, devices::routes());
  append(routes_, nodes::routes(context));
  append(routes_, openai::routes(options_.adapters, door_.get()));
  append(routes_, rerank::routes());
  append(routes_, anthropic::routes());
  append(routes_, ollama::routes(options_.fleet));
  append(routes_, catalog::routes());
  append(routes_, responses::routes(*responses_));
  append(routes_, batches::file_routes(*files_));
  append(routes_, batches::batch_routes(*files_, *jobs_));
  append(routes_, jobs::routes(*jobs_));
  append(routes_, people_routes({.people = options_.people.get(),
                                 .oidc = options_.oidc.get(),
                                 .has_keys = !options_.keys.empty(),
                                 .root_path = options_.root_path}));
}

void App::set_ready() {
  ready_.store(true);
  if (options_.runs_jobs) jobs_->start();
}

void App::stop() {
  jobs_->stop();
  background_.stop();
  if (spans_) spans_->stop();
}

http::Handler App::handler() {
  return [this](http::Request& request, http::Reply& reply) -> awaitable<void> { return dispatch(request, reply); };
}

// Why the route must not run now, if it must not.
std::optional<ApiError> App::refusal(http::Request& request, const Route* route, bool path_known, http::Reply& reply,
                                     Gate::Visit& visit) const {
  if (auto unknown = gate_.identify(request, route, visit)) return unknown;
  if (route == nullptr) {
    return ApiError{.status = path_known ? 405 : 404,
                    .message = fmt::format("{} {}: {}", request.method, request.path,
                                           path_known ? "the route has other methods" : "no such route")};
  }
  if (route->access == Access::kLiveness) return std::nullopt;
  if (request.draining) return unavailable("the server is shutting down");
  if (!is_ready()) return unavailable("models are loading");
  return gate_.admit(models_, request, *route, reply, visit);
}

// A model of the fleet is asked by the door; one of this process by the route itself.
awaitable<void> App::carry_or_run(const Route& route, const http::Request& request, http::Reply& reply) const {
  bool was_carried = false;
  if (door_) was_carried = co_await door_->serve(route, models_, request, reply);
  if (was_carried) co_return;
  const ClientHere client(local_clients_, request.background ? 0 : 1);
  co_await route.run(models_, request, reply);
}

awaitable<void> App::run_route(const Route& route, const http::Request& request, http::Reply& reply) const {
  std::string failure;
  try {
    if (route.carried) {
      const std::function<awaitable<void>(http::Reply&)> work = [&](http::Reply& to) {
        return carry_or_run(route, request, to);
      };
      co_await running_.run(request, reply, route, work);
    } else {
      co_await route.run(models_, request, reply);
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (failure.empty()) co_return;
  log_.write(LogLevel::kError, "a route failed", failure_fields(request, failure));
  if (reply.status() == 0) co_await send_error(reply, internal_error(), route.error_body);
}

void App::log_request(const http::Request& request, const http::Reply& reply, double seconds) const {
  Json fields = {{"request_id", request.id}, {"method", request.method},    {"path", request.path},
                 {"status", reply.status()}, {"bytes", reply.bytes_sent()}, {"seconds", seconds}};
  if (!request.peer.empty()) fields["client"] = request.peer;
  if (const auto trace = parse_traceparent(request.header("traceparent"))) {
    fields["trace_id"] = trace->trace_id;
    fields["parent_span_id"] = trace->span_id;
  }
  if (reply.client_gone()) fields["client_gone"] = true;
  log_.write(LogLevel::kInfo, "request", fields);
}

// A client whose own trace is not kept does not want ours.
std::optional<RequestSpan> App::begin_span(const Route* route, const http::Request& request) const {
  if (!spans_ || route == nullptr || !route->traced) return std::nullopt;
  const auto parent = parse_traceparent(request.header("traceparent"));
  if (parent && !parent->sampled) return std::nullopt;
  RequestSpan span(route->method, route->path, parent);
  span.request_id = request.id;
  span.client = request.peer;
  const auto state = request.header("tracestate");
  if (parent && state && state->size() <= kTraceStateMax) span.trace_state = std::string(*state);
  return span;
}

void App::end_span(std::optional<RequestSpan> span, http::Reply& reply) const {
  reply.set_span(nullptr);
  if (!span) return;
  span->finish({.status = reply.status(), .client_gone = reply.client_gone()});
  spans_->add(std::move(*span));
}

awaitable<void> App::serve_inside(http::Request& request, http::Reply& reply) const {
  Choice choice = choose(routes_, request);
  request.params = std::move(choice.params);
  if (choice.route == nullptr) co_return;
  std::optional<RequestSpan> span = begin_span(choice.route, request);
  if (span) reply.set_span(&*span);
  co_await run_route(*choice.route, request, reply);
  end_span(std::move(span), reply);
}

awaitable<void> App::dispatch(http::Request& request, http::Reply& reply) {
  const auto begin = Clock::now();
  strip_root_path(options_.root_path, request);
  add_cors(options_, request, reply);
  Choice choice = choose(routes_, request);
  request.params = std::move(choice.params);
  const ErrorBody error_body =
      choice.same_path != nullptr ? choice.same_path->error_body : error_body_near(routes_, request.path);
  std::optional<RequestSpan> span = request.broken ? std::nullopt : begin_span(choice.route, request);
  if (span) reply.set_span(&*span);
  Gate::Visit visit;
  reply.start_counting();
  if (request.broken) {
    const ApiError error{.status = request.broken->status, .message = request.broken->message};
    co_await send_error(reply, error, error_body);
  } else if (request.method == "OPTIONS" && choice.same_path != nullptr) {
    co_await answer_options(options_, request, choice, reply);
  } else if (const auto error = refusal(request, choice.route, choice.same_path != nullptr, reply, visit)) {
    if (error->status == 401) reply.set_header("WWW-Authenticate", "Bearer");
    if (error->status == 405) reply.set_header("Allow", choice.methods + ", OPTIONS");
    co_await send_error(reply, *error, error_body);
  } else {
    co_await run_route(*choice.route, request, reply);
  }
  end_span(std::move(span), reply);
  if (choice.route != nullptr && !request.broken) gate_.record(request, *choice.route, reply.status());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  metrics_.count_http(choice.route != nullptr ? choice.route->method : "other",
                      choice.route != nullptr ? choice.route->path : "none", reply.status(), seconds);
  const bool routine = choice.route != nullptr && choice.route->routine && reply.status() < 400;
  if (log_.writes(routine ? LogLevel::kDebug : LogLevel::kInfo)) log_request(request, reply, seconds);
}

}  // namespace quern
