#include "platform/jobs/job_runner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "platform/jobs/job_files.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int64_t kFetchedAtOnce = 64;
constexpr milliseconds kWhileLinesRun{250}, kWhileJobsWait{1000}, kWhileIdle{5000};
constexpr std::chrono::hours kOrphanAge{1};

// Folders of jobs that are in no table: the process ended between the two.
void sweep(JobStore& store, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("job_") && !name.starts_with("batch_")) continue;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry.path(), error);
    const auto job = store.job(name);
    if (job && !*job && age > kOrphanAge) fs::remove_all(entry.path(), error);
  }
}

}  // namespace

JobRunner::~JobRunner() {
  stop();
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

void JobRunner::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void JobRunner::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void JobRunner::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool JobRunner::wait(milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_ || woken_; });
  woken_ = false;
  return !stopping_;
}

bool JobRunner::holds_lock() {
  if (lock_fd_ >= 0) return true;
  const int fd = ::open((options_.folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return false;
  }
  lock_fd_ = fd;
  sweep(store_, options_.folder);
  return true;
}

void JobRunner::run() {
  milliseconds pause{0};
  while (wait(pause)) pause = holds_lock() ? turn() : kWhileIdle;
  give_up_all();
}

milliseconds JobRunner::turn() {
  take_answers();
  for (auto& [id, active] : active_) write_results(active);
  const Status fresh = refresh();
  complain(fresh);
  if (!fresh) return kWhileJobsWait;
  for (auto it = active_.begin(); it != active_.end();) {
    end_or_publish(it->second);
    it = it->second.job.published ? active_.erase(it) : std::next(it);
  }
  plan_and_begin();
  const bool runs = std::ranges::any_of(active_, [](const auto& entry) { return !entry.second.in_flight.empty(); });
  return runs ? kWhileLinesRun : active_.empty() ? kWhileIdle : kWhileJobsWait;
}

// What people have changed since the last turn.
Status JobRunner::refresh() {
  QUERN_ASSIGN(auto open, store_.open_jobs());
  std::set<std::string> ids;
  for (JobView& job : open) {
    ids.insert(job.id);
    const auto found = active_.find(job.id);
    if (found != active_.end()) {
      found->second.job = std::move(job);
      continue;
    }
    std::string id = job.id;
    if (auto active = load(std::move(job))) active_.emplace(std::move(id), std::move(*active));
  }
  for (auto it = active_.begin(); it != active_.end();) {
    const bool gone = !ids.contains(it->first);
    if (gone) {
      for (auto& [number, line] : it->second.in_flight) line.handle->cancel();
    }
    it = gone ? active_.erase(it) : std::next(it);
  }
  QUERN_ASSIGN(const auto forgotten, store_.forget_old());
  return {};
}

std::optional<JobRunner::Active> JobRunner::load(JobView job) {
  Active active;
  active.job = std::move(job);
  active.window = Window::parse(active.job.spec.window).value_or(Window());
  const auto bytes = store_.results_bytes(active.job.id);
  const auto lines = store_.open_lines_by_model(active.job.id);
  if (!bytes || !lines) {
    complain(std::unexpected(bytes ? lines.error() : bytes.error()));
    return std::nullopt;
  }
  active.results_bytes = *bytes;
  for (const auto& [model, count] : *lines) active.queues[model].unfetched = count;
  return active;
}

void JobRunner::end_or_publish(Active& active) {
  const JobView& job = active.job;
  const bool late = job.spec.deadline > 0 && job_clock() >= job.spec.deadline && !has_ended(job.state);
  if ((has_ended(job.state) || late) && !active.ending) {
    active.ending = true;
    for (auto& [number, line] : active.in_flight) line.handle->cancel();
  }
  if (!active.in_flight.empty() || !active.unwritten.empty()) return;
  const std::string counts = fmt::format("{} of {} lines answered, {} failed", job.done, job.total, job.failed);
  if (has_ended(job.state)) return publish(active, job.state, fmt::format("{}: {}", job_state_name(job.state), counts));
  if (late) return publish(active, JobState::kExpired, "the deadline has passed: " + counts);
  const bool any_left = std::ranges::any_of(
      active.queues, [](const auto& entry) { return entry.second.unfetched > 0 || !entry.second.ready.empty(); });
  if (!any_left) publish(active, JobState::kCompleted, counts);
}

PlannedJob JobRunner::planned(Active& active) {
  const JobSpec& spec = active.job.spec;
  PlannedJob job{.id = active.job.id,
                 .priority = spec.priority,
                 .paused = active.job.state == JobState::kPaused,
                 .window_open = active.window.is_open(minute_of_week(job_clock())),
                 .waits_for_models = !spec.is_batch(),
                 .has_begun = active.job.started > 0,
                 .max_concurrency = spec.max_concurrency,
                 .busy_concurrency = spec.busy_concurrency,
                 .lines = {}};
  const auto now = Clock::now();
  for (const auto& [model, queue] : active.queues) {
    const auto ready = std::ranges::count_if(queue.ready, [&](const Line& line) { return line.not_before <= now; });
    job.lines[model].ready = ready + queue.unfetched;
  }
  for (const auto& [number, line] : active.in_flight) ++job.lines[line.place.model].in_flight;
  return job;
}

void JobRunner::plan_and_begin() {
  std::vector<PlannedJob> jobs;
  std::map<std::string, PlannedModel> models;
  const auto now = Clock::now();
  for (auto& [id, active] : active_) {
    if (active.ending || !active.unwritten.empty()) continue;
    jobs.push_back(planned(active));
    for (const auto& [model, lines] : jobs.back().lines) {
      if (models.contains(model)) continue;
      PlannedModel& there = models[model] = options_.look_at(model);
      const auto rest = rests_.find(model);
      there.resting = there.resting || (rest != rests_.end() && rest->second.until > now);
    }
  }
  // By age: ids are random.
  for (PlannedJob& job : jobs) job.order = active_.at(job.id).job.number;
  const std::vector<JobPlan> plans = plan_jobs(jobs, models);
  for (size_t i = 0; i < jobs.size(); ++i) {
    Active& active = active_.at(jobs[i].id);
    const JobPlan& plan = plans[i];
    if (plan.state != active.job.state) {
      const auto changed = store_.set_state(jobs[i].id, plan.state, JobStore::By::kRunner, plan.message, job_clock());
      if (!changed) complain(std::unexpected(changed.error()));
      // Somebody was faster: the next turn sees it.
      if (!changed || !*changed) continue;
      note(active, plan.message.empty() ? job_state_name(plan.state)
                                        : fmt::format("{}: {}", job_state_name(plan.state), plan.message));
    } else if (plan.message != active.job.message) {
      complain(store_.set_message(jobs[i].id, plan.message));
    }
    for (const auto& [model, count] : plan.begin) begin(active, model, count);
  }
}

void JobRunner::begin(Active& active, const std::string& model, int64_t count) {
  Queue& queue = active.queues[model];
  const auto now = Clock::now();
  while (count > 0) {
    auto next = std::ranges::find_if(queue.ready, [&](const Line& line) { return line.not_before <= now; });
    if (next == queue.ready.end()) {
      if (queue.unfetched == 0) return;
      const auto lines = store_.open_lines(active.job.id, model, queue.cursor, kFetchedAtOnce);
      if (!lines) return complain(std::unexpected(lines.error()));
      queue.unfetched = lines->empty() ? 0 : std::max<int64_t>(queue.unfetched - std::ssize(*lines), 0);
      for (const JobInputLine& line : *lines) {
        queue.cursor = line.number;
        Line open;
        open.place = line;
        queue.ready.push_back(std::move(open));
      }
      if (lines->empty()) return;
      continue;
    }
    Line line = std::move(*next);
    queue.ready.erase(next);
    if (!begin_line(active, std::move(line))) return;
    --count;
  }
}

bool JobRunner::begin_line(Active& active, Line line) {
  const auto text = read_at(folder_of(active) / kJobInputName, line.place.offset, line.place.bytes);
  auto request = text ? parse_job_line(*text, active.job.spec) : std::unexpected(text.error());
  if (!request) {
    complain(std::unexpected(request.error()));
    active.ending = true;
    const auto failed =
        store_.set_state(active.job.id, JobState::kFailed, JobStore::By::kPerson, request.error().message, job_clock());
    if (!failed) complain(std::unexpected(failed.error()));
    return false;
  }
  const int64_t number = line.place.number;
  line.request_id = new_job_id("batch_req_");
  line.custom_id = std::move(request->custom_id);
  LineCall call{.request_id = line.request_id, .url = std::move(request->url), .body = std::move(request->body)};
  auto& in_flight = active.in_flight[number] = std::move(line);
  in_flight.handle = options_.run_line(std::move(call), [this, id = active.job.id, number](LineAnswer answer) {
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back({.job = id, .number = number, .answer = std::move(answer)});
      woken_ = true;
    }
    changed_.notify_all();
  });
  if (in_flight.handle) return true;
  Line back = std::move(in_flight);
  active.in_flight.erase(number);
  back.not_before = Clock::now() + std::chrono::seconds(1);
  active.queues[back.place.model].ready.push_front(std::move(back));
  return false;
}

// Lines that have just been answered are kept; the others are asked again after the next start.
void JobRunner::give_up_all() {
  const auto any_runs = [this] {
    return std::ranges::any_of(active_, [](const auto& entry) { return !entry.second.in_flight.empty(); });
  };
  for (auto& [id, active] : active_) {
    active.ending = true;
    for (auto& [number, line] : active.in_flight) line.handle->cancel();
  }
  while (any_runs()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !answers_.empty(); });
    }
    take_answers();
  }
  for (auto& [id, active] : active_) write_results(active);
}

void JobRunner::note(Active& active, const std::string& text) {
  complain(store_.log(active.job.id, job_clock(), text));
}

// Once, not with every turn.
void JobRunner::complain(const Status& status) {
  if (status || status.error().message == last_complaint_) return;
  last_complaint_ = status.error().message;
  if (options_.log) options_.log("jobs: " + last_complaint_);
}

}  // namespace quern
