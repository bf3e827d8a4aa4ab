#include "platform/jobs/jobs.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/status.h"
#include "platform/jobs/job_runner.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> no_job(const std::string& id) {
  return not_found(fmt::format("No job found with id '{:.100}'.", id));
}

std::unexpected<Error> wrong_state(const JobView& job, const char* what) {
  return unsupported(fmt::format("a job that is {} cannot be {}", job_state_name(job.state), what));
}

}  // namespace

std::string new_job_id(std::string_view prefix) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, generator(), generator());
}

int64_t job_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

Result<std::unique_ptr<Jobs>> Jobs::open(JobsOptions options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  fs::permissions(options.folder, fs::perms::owner_all, error);  // prompts are in it
  if (error) return io_error(fmt::format("{}: {}", options.folder.string(), error.message()));
  std::unique_ptr<Jobs> jobs(new Jobs(std::move(options)));
  QUERN_ASSIGN(jobs->store_, JobStore::open(jobs->options_.folder / "jobs.db"));
  jobs->runner_ = std::make_unique<JobRunner>(*jobs->store_, jobs->options_);
  return jobs;
}

Jobs::Jobs(JobsOptions options) : options_(std::move(options)) {}

Jobs::~Jobs() {
  stop();
}

void Jobs::start() {
  runner_->start();
}

void Jobs::stop() {
  runner_->stop();
}

Result<std::vector<JobInputLine>> Jobs::copy_input(const JobSpec& spec, const fs::path& target) {
  const char* field = spec.input_path.empty() ? "input_file_id" : "input_path";
  Result<std::vector<JobInputLine>> lines;
  if (!spec.input_path.empty()) {
    lines = copy_job_input_file(spec.input_path, spec, target);
  } else {
    QUERN_ASSIGN(const std::string text, options_.read_file(spec.input_file_id));
    lines = copy_job_input(text, spec, target);
  }
  if (!lines && lines.error().code == ErrorCode::kInvalidArgument) {
    return invalid_argument(fmt::format("{}: {}", field, lines.error().message));
  }
  return lines;
}

Result<JobView> Jobs::add(JobSpec spec, std::string id) {
  if (id.empty()) id = new_job_id(spec.is_batch() ? "batch_" : "job_");
  if (!spec.input_path.empty()) {
    if (!allows_paths()) return invalid_argument("input_path: this server was started without --jobs-folder");
    QUERN_ASSIGN(spec, with_paths_below(std::move(spec), options_.paths_below));
  }
  JobView job{.id = std::move(id), .spec = std::move(spec), .created = job_clock()};
  if (job.spec.name.empty()) job.spec.name = job.id;
  std::error_code error;
  const fs::path folder = options_.folder / job.id;
  fs::create_directories(folder, error);
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  const auto lines = copy_input(job.spec, folder / kJobInputName);
  Status added;
  if (lines) {
    job.total = std::ssize(*lines);
    for (const JobInputLine& line : *lines) job.models.push_back(line.model);
    std::ranges::sort(job.models);
    job.models.erase(std::unique(job.models.begin(), job.models.end()), job.models.end());
    added = job.models.size() > 64 ? invalid_argument("input_file_id: its lines name over 64 models") : Status();
    if (added) added = store_->add(job, *lines);
  }
  if (!lines || !added) {
    fs::remove_all(folder, error);
    return std::unexpected(lines ? added.error() : lines.error());
  }
  QUERN_TRY(store_->log(job.id, job.created, fmt::format("{} lines wait", job.total)));
  runner_->wake();
  return job;
}

Result<JobSpec> Jobs::named(const std::string& name) {
  QUERN_ASSIGN(auto job, store_->newest_named(name));
  if (!job) return not_found(fmt::format("No job has the name '{:.128}'.", name));
  return std::move(job->spec);
}

Result<JobView> Jobs::job(const std::string& id) {
  QUERN_ASSIGN(auto job, store_->job(id));
  if (!job) return no_job(id);
  return std::move(*job);
}

Result<std::vector<JobView>> Jobs::jobs(JobStore::Kind kind, const std::string& after, int64_t limit) {
  return store_->jobs(kind, after, limit);
}

Result<JobView> Jobs::cancel(const std::string& id) {
  QUERN_ASSIGN(const JobView before, job(id));
  QUERN_ASSIGN(const bool changed,
               store_->set_state(id, JobState::kCancelled, JobStore::By::kPerson, "cancelled", job_clock()));
  if (!changed) return wrong_state(before, "cancelled");
  QUERN_TRY(store_->log(id, job_clock(), "cancelled"));
  runner_->wake();
  return job(id);
}

Result<JobView> Jobs::pause(const std::string& id) {
  QUERN_ASSIGN(const JobView before, job(id));
  QUERN_ASSIGN(const bool changed, store_->set_state(id, JobState::kPaused, JobStore::By::kPerson, "", job_clock()));
  if (!changed) return wrong_state(before, "paused");
  QUERN_TRY(store_->log(id, job_clock(), "paused: lines that run are answered, no others begin"));
  runner_->wake();
  return job(id);
}

Result<JobView> Jobs::resume(const std::string& id) {
  QUERN_ASSIGN(const JobView before, job(id));
  if (before.state != JobState::kPaused) return wrong_state(before, "resumed");
  QUERN_ASSIGN(const bool changed, store_->set_state(id, JobState::kQueued, JobStore::By::kPerson, "", job_clock()));
  if (!changed) return wrong_state(before, "resumed");
  QUERN_TRY(store_->log(id, job_clock(), "resumed"));
  runner_->wake();
  return job(id);
}

Status Jobs::remove(const std::string& id) {
  QUERN_ASSIGN(const JobView before, job(id));
  if (!before.published) return wrong_state(before, "removed: it must have ended");
  QUERN_TRY(store_->remove(id));
  std::error_code error;
  std::filesystem::remove_all(options_.folder / before.id, error);
  return {};
}

Result<std::vector<JobLogLine>> Jobs::log(const std::string& id, int64_t from, int64_t limit) {
  QUERN_TRY(job(id));
  return store_->log_lines(id, from, limit);
}

}  // namespace quern
