#include "server/xxljob/handlers.h"

#include "base/status.h"
#include "server/jobs/routes.h"

namespace quern::xxljob {
namespace {

constexpr const char* kBatch = "quern-batch";
constexpr const char* kLaunch = "quern-launch";
constexpr const char* kStop = "quern-stop";

std::string job_id_of(const Trigger& trigger) {
  return fmt::format("job_xxl_{}_{}", trigger.log_id, trigger.log_time);
}

bool is_object(const std::string& params) {
  return params.find_first_not_of(" \t\r\n") != std::string::npos && params[params.find_first_not_of(" \t\r\n")] == '{';
}

// A name alone is the name of a job that ran before.
Result<std::string> begin_batch(const Trigger& trigger, Jobs& jobs) {
  std::string id = job_id_of(trigger);
  if (jobs.job(id)) return id;
  Json body = {{"template", trigger.params}};
  if (is_object(trigger.params)) {
    QUERN_ASSIGN(body, parse_json(trigger.params, "executorParams"));
  }
  QUERN_ASSIGN(JobSpec spec, jobs::read_spec(jobs, body));
  QUERN_ASSIGN(const JobView job, jobs.add(std::move(spec), id));
  return job.id;
}

Result<std::string> begin_launch(const Trigger& trigger, Fleet& fleet) {
  QUERN_ASSIGN(const Json body, parse_json(trigger.params, "executorParams"));
  QUERN_ASSIGN(LaunchSpec spec, launch_spec_from_json(body));
  if (!spec.uid.empty() && fleet.knows(spec.uid)) return spec.uid;  // it runs already
  return fleet.launch(std::move(spec));
}

Result<std::string> begin_stop(const Trigger& trigger, Fleet& fleet) {
  std::string uid = trigger.params;
  if (is_object(trigger.params)) {
    QUERN_ASSIGN(const Json body, parse_json(trigger.params, "executorParams"));
    const auto field = body.find("uid");
    if (field == body.end() || !field->is_string()) return invalid_argument("uid: is missing");
    uid = field->get<std::string>();
  }
  if (!fleet.knows(uid)) return not_found(fmt::format("no model has the uid {:.128}", uid));
  QUERN_TRY(fleet.terminate(uid));
  return uid;
}

std::optional<Handlers::End> look_at_job(const std::string& id, Jobs& jobs) {
  const auto job = jobs.job(id);
  if (!job) return Handlers::End{.code = kFailed, .message = job.error().message};
  if (!job->published) return std::nullopt;
  const bool well = job->state == JobState::kCompleted && job->failed == 0;
  std::string message = fmt::format("{}: {}", id, job->message);
  if (!job->output_file_id.empty()) message += ", output " + job->output_file_id;
  return Handlers::End{.code = well ? kDone : kFailed, .message = std::move(message)};
}

std::optional<Handlers::End> look_at_launch(const std::string& uid, const Fleet& fleet) {
  const auto model = fleet.model(uid);
  if (!model) return Handlers::End{.code = kFailed, .message = uid + " was stopped"};
  if (model->state == ModelState::kReady) return Handlers::End{.code = kDone, .message = uid + " is ready"};
  if (model->state != ModelState::kError) return std::nullopt;
  return Handlers::End{.code = kFailed, .message = fmt::format("{} did not come up: {}", uid, model->message)};
}

}  // namespace

bool Handlers::knows(const std::string& handler) {
  return handler == kBatch || handler == kLaunch || handler == kStop;
}

Result<std::string> Handlers::begin(const Trigger& trigger) const {
  if (trigger.handler == kBatch) return begin_batch(trigger, jobs);
  if (fleet == nullptr) return unsupported("this server launches no models");
  return trigger.handler == kLaunch ? begin_launch(trigger, *fleet) : begin_stop(trigger, *fleet);
}

std::optional<Handlers::End> Handlers::look(const Run& run) const {
  if (run.trigger.handler == kBatch) return look_at_job(run.target, jobs);
  if (fleet == nullptr) return End{.code = kFailed, .message = "this server launches no models"};
  if (run.trigger.handler == kLaunch) return look_at_launch(run.target, *fleet);
  if (fleet->model(run.target)) return std::nullopt;
  return End{.code = kDone, .message = run.target + " is stopped"};
}

void Handlers::give_up(const Run& run) const {
  if (run.trigger.handler == kBatch) {
    (void)jobs.cancel(run.target);  // it may have ended meanwhile
  } else if (run.trigger.handler == kLaunch && fleet != nullptr) {
    const auto model = fleet->model(run.target);
    if (model && model->state != ModelState::kReady) (void)fleet->terminate(run.target);
  }
}

}  // namespace quern::xxljob
