// Which route answers a request, who may use it, and what every reply carries.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "platform/database.h"
#include "platform/jobs/jobs.h"
#include "platform/people/oidc.h"
#include "server/adapter_rules.h"
#include "server/background.h"
#include "server/batches/store.h"
#include "server/door/door.h"
#include "server/http/server.h"
#include "server/jobs/line_runner.h"
#include "server/keys.h"
#include "server/log.h"
#include "server/metrics/metrics.h"
#include "server/model_table.h"
#include "server/people/gate.h"
#include "server/platform/running_requests.h"
#include "server/responses/store.h"
#include "server/route.h"
#include "server/tracing/exporter.h"

namespace quern {

struct AppOptions {
  KeySet keys;                                   // not empty: every route but liveness and the pages wants one of them
  KeySet worker_tokens;                          // for machines that join, and good for nothing else
  std::shared_ptr<people::People> people;        // null: nobody signs in, static keys alone count
  std::shared_ptr<people::Oidc> oidc;            // null: nobody signs in elsewhere
  std::vector<people::Network> trusted_proxies;  // whose X-Forwarded-For is believed
  std::vector<std::string> cors_origins;         // of web pages that may call; "*": any
  std::string root_path;                         // "/prefix": also served below it
  std::string store_path;                        // database of responses, files and batches; ":memory:" keeps nothing
  AdapterRules adapters;                         // who may load them
  std::string jobs_path;                         // folder of the queue of jobs; empty: one that ends with the app
  std::string jobs_files;                        // jobs may name files below this folder; empty: none
  bool runs_jobs = true;                         // a worker leaves the folder's jobs to the server in front
  bool management_allowed = false;               // of models: whoever may use a route may launch, stop and register
  TracingSettings tracing;                       // where spans go
  Fleet* fleet = nullptr;                        // models of other processes; null: only the table's are served
  std::chrono::milliseconds load_timeout{600000};  // how long a request waits for its model of the fleet
};

class App {
 public:
  // `models`, `metrics`, `log` and the fleet must outlive the app. A database that cannot be opened is replaced by one
  // in memory, with a warning.
  static Result<std::unique_ptr<App>> create(const ModelTable& models, Metrics& metrics, const Log& log,
                                             AppOptions options);
  ~App();

  // The app must outlive the handler. Until set_ready() only liveness routes answer.
  http::Handler handler();
  void set_ready();  // models are loaded; jobs run from now on
  bool is_ready() const { return ready_.load(); }
  void stop();  // ends what runs in the background

  // Every route there is, from all dialects. Tests compare docs/openapi.json with it.
  const Routes& routes() const { return routes_; }
  const Metrics& metrics() const { return metrics_; }
  const door::Door* door() const { return door_.get(); }  // null: there is no fleet
  Jobs& jobs() { return *jobs_; }
  // Of the queue; one of its own where the options named none.
  std::filesystem::path jobs_folder() const;

 private:
  App(const ModelTable& models, Metrics& metrics, const Log& log, AppOptions options)
      : models_(models),
        metrics_(metrics),
        log_(log),
        options_(std::move(options)),
        gate_(options_.keys, options_.people.get(), options_.trusted_proxies, options_.worker_tokens) {}
  Status open_stores();
  Status open_jobs();
  PlannedModel look_at(const std::string& model) const;  // for jobs
  void collect_routes();

  http::asio::awaitable<void> dispatch(http::Request& request, http::Reply& reply);
  http::asio::awaitable<void> run_route(const Route& route, const http::Request& request, http::Reply& reply) const;
  http::asio::awaitable<void> carry_or_run(const Route& route, const http::Request& request, http::Reply& reply) const;
  http::asio::awaitable<void> serve_inside(http::Request& request, http::Reply& reply) const;  // without a key
  std::optional<RequestSpan> begin_span(const Route* route, const http::Request& request) const;
  void end_span(std::optional<RequestSpan> span, http::Reply& reply) const;
  std::optional<ApiError> refusal(http::Request& request, const Route* route, bool path_known, http::Reply& reply,
                                  Gate::Visit& visit) const;
  void log_request(const http::Request& request, const http::Reply& reply, double seconds) const;

  const ModelTable& models_;
  Metrics& metrics_;
  const Log& log_;
  const AppOptions options_;
  const Gate gate_;
  std::atomic<bool> ready_ = false;
  Routes routes_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<SpanExporter> spans_;  // null: nobody collects any
  mutable platform::RunningRequests running_;
  std::unique_ptr<door::Door> door_;
  Background background_{256};
  std::unique_ptr<responses::ResponseStore> responses_;
  std::unique_ptr<batches::FileStore> files_;
  mutable std::atomic<int64_t> local_clients_ = 0;  // requests of clients at models of this process
  std::filesystem::path own_jobs_folder_;           // removed at the end; empty: none
  const jobs::Serve serve_line_ = [this](http::Request& request, http::Reply& reply) {
    return serve_inside(request, reply);
  };
  std::unique_ptr<Jobs> jobs_;
};

}  // namespace quern
