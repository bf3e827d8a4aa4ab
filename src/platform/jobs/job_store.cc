#include "platform/jobs/job_store.h"

#include "base/status.h"

namespace quern {
namespace {

constexpr const char* kJobsSchema =
    "CREATE TABLE IF NOT EXISTS jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, "
    "name TEXT NOT NULL, is_batch INTEGER NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL, models TEXT NOT NULL, "
    "created INTEGER NOT NULL, started INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0, "
    "total INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, "
    "results_bytes INTEGER NOT NULL DEFAULT 0, published INTEGER NOT NULL DEFAULT 0, "
    "output_file_id TEXT NOT NULL DEFAULT '', error_file_id TEXT NOT NULL DEFAULT '', "
    "message TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX IF NOT EXISTS jobs_open ON jobs (number) WHERE published = 0;"
    "CREATE INDEX IF NOT EXISTS jobs_named ON jobs (name, number);"
    "CREATE TABLE IF NOT EXISTS lines (job TEXT NOT NULL, number INTEGER NOT NULL, model TEXT NOT NULL, "
    "offset INTEGER NOT NULL, bytes INTEGER NOT NULL, failed INTEGER, result_offset INTEGER, result_bytes INTEGER, "
    "PRIMARY KEY (job, number)) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS lines_open ON lines (job, model, number) WHERE failed IS NULL;"
    "CREATE TABLE IF NOT EXISTS job_log (job TEXT NOT NULL, number INTEGER NOT NULL, time INTEGER NOT NULL, "
    "text TEXT NOT NULL, PRIMARY KEY (job, number)) WITHOUT ROWID;";

constexpr const char* kJobColumns =
    "id, spec, state, created, started, ended, total, done, failed, models, output_file_id, error_file_id, message, "
    "published, number";

JobView job_of(const Database::Row& row) {
  JobView job{.id = text_of(row[0]),
              .number = integer_of(row[14]),
              .spec = stored_job_spec(text_of(row[1])),
              .state = job_state_of(text_of(row[2])),
              .created = integer_of(row[3]),
              .started = integer_of(row[4]),
              .ended = integer_of(row[5]),
              .total = integer_of(row[6]),
              .done = integer_of(row[7]),
              .failed = integer_of(row[8]),
              .output_file_id = text_of(row[10]),
              .error_file_id = text_of(row[11]),
              .message = text_of(row[12]),
              .published = integer_of(row[13]) != 0};
  const auto models = parse_json(text_of(row[9]), "stored job");
  for (const Json& model : models && models->is_array() ? *models : Json::array()) {
    if (model.is_string()) job.models.push_back(model.get<std::string>());
  }
  return job;
}

// Undone unless commit() was called. Needs the store's lock.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {}
  ~Transaction() {
    if (begun_) (void)database_.run("ROLLBACK");
  }
  Transaction(const Transaction&) = delete;
  Status begin() {
    QUERN_TRY(database_.run("BEGIN IMMEDIATE"));
    begun_ = true;
    return {};
  }
  Status commit() {
    QUERN_TRY(database_.run("COMMIT"));
    begun_ = false;
    return {};
  }

 private:
  Database& database_;
  bool begun_ = false;
};

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::open(const std::filesystem::path& path) {
  std::unique_ptr<JobStore> store(new JobStore());
  QUERN_ASSIGN(store->database_, Database::open(path, kJobsSchema));
  return store;
}

Status JobStore::add(const JobView& job, const std::vector<JobInputLine>& lines) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  QUERN_TRY(transaction.begin());
  QUERN_ASSIGN(const auto waiting, database_->run("SELECT COUNT(*) FROM jobs WHERE published = 0"));
  if (integer_of(waiting[0][0]) >= kUnfinishedMax) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("{} jobs wait already", kUnfinishedMax));
  }
  QUERN_TRY(
      database_->run("INSERT INTO jobs (id, name, is_batch, spec, state, models, created, total) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                     {job.id, job.spec.name, int64_t{job.spec.is_batch()}, dump_json(job.spec.to_json()),
                      job_state_name(job.state), dump_json(Json(job.models)), job.created, job.total}));
  for (const JobInputLine& line : lines) {
    QUERN_TRY(database_->run("INSERT INTO lines (job, number, model, offset, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
                             {job.id, line.number, line.model, line.offset, line.bytes}));
  }
  return transaction.commit();
}

Result<std::vector<JobView>> JobStore::select(const std::string& rest, const std::vector<Database::Value>& values) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(const auto rows, database_->run(fmt::format("SELECT {} FROM jobs {}", kJobColumns, rest), values));
  std::vector<JobView> jobs;
  for (const auto& row : rows) jobs.push_back(job_of(row));
  return jobs;
}

Result<std::optional<JobView>> JobStore::job(const std::string& id) {
  QUERN_ASSIGN(auto jobs, select("WHERE id = ?1", {id}));
  if (jobs.empty()) return std::nullopt;
  return std::move(jobs[0]);
}

Result<std::optional<JobView>> JobStore::newest_named(const std::string& name) {
  QUERN_ASSIGN(auto jobs, select("WHERE name = ?1 AND is_batch = 0 ORDER BY number DESC LIMIT 1", {name}));
  if (jobs.empty()) return std::nullopt;
  return std::move(jobs[0]);
}

Result<std::vector<JobView>> JobStore::jobs(Kind kind, const std::string& after, int64_t limit) {
  return select(
      "WHERE is_batch >= ?1 AND (?2 = '' OR number < (SELECT number FROM jobs WHERE id = ?2)) "
      "ORDER BY number DESC LIMIT ?3",
      {int64_t{kind == Kind::kBatches}, after, limit});
}

Result<std::vector<JobView>> JobStore::open_jobs() {
  return select("WHERE published = 0 ORDER BY number", {});
}

Result<std::vector<std::string>> JobStore::forget_old() {
  std::vector<JobView> old;
  QUERN_ASSIGN(old, select("WHERE published = 1 ORDER BY number DESC LIMIT 100 OFFSET ?1", {kEndedMax}));
  std::vector<std::string> ids;
  for (const JobView& job : old) {
    QUERN_TRY(remove(job.id));
    ids.push_back(job.id);
  }
  return ids;
}

Status JobStore::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  QUERN_TRY(transaction.begin());
  QUERN_TRY(database_->run("DELETE FROM lines WHERE job = ?1", {id}));
  QUERN_TRY(database_->run("DELETE FROM job_log WHERE job = ?1", {id}));
  QUERN_TRY(database_->run("DELETE FROM jobs WHERE id = ?1", {id}));
  return transaction.commit();
}

Result<bool> JobStore::set_state(const std::string& id, JobState state, By by, const std::string& message,
                                 int64_t now) {
  const std::lock_guard lock(mutex_);
  const std::string also = by == By::kRunner ? ", 'paused'" : "";
  QUERN_ASSIGN(const auto rows,
               database_->run("UPDATE jobs SET state = ?2, message = ?3, "
                              "started = CASE WHEN started = 0 AND ?2 = 'running' THEN ?4 ELSE started END, "
                              "ended = CASE WHEN ?5 THEN ?4 ELSE 0 END WHERE id = ?1 AND state NOT IN "
                              "('completed', 'failed', 'cancelled', 'expired'" +
                                  also + ") RETURNING id",
                              {id, job_state_name(state), message, now, int64_t{has_ended(state)}}));
  return !rows.empty();
}

Status JobStore::set_message(const std::string& id, const std::string& message) {
  const std::lock_guard lock(mutex_);
  QUERN_TRY(database_->run("UPDATE jobs SET message = ?2 WHERE id = ?1 AND message <> ?2", {id, message}));
  return {};
}

Status JobStore::publish(const std::string& id, JobState state, const std::string& output_file_id,
                         const std::string& error_file_id, const std::string& message, int64_t now) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  QUERN_TRY(transaction.begin());
  QUERN_TRY(
      database_->run("UPDATE jobs SET published = 1, output_file_id = ?2, error_file_id = ?3, message = ?4, "
                     "state = CASE WHEN state = 'cancelled' THEN state ELSE ?5 END, "
                     "ended = CASE WHEN ended = 0 THEN ?6 ELSE ended END WHERE id = ?1",
                     {id, output_file_id, error_file_id, message, job_state_name(state), now}));
  QUERN_TRY(database_->run("DELETE FROM lines WHERE job = ?1", {id}));
  return transaction.commit();
}

Result<std::map<std::string, int64_t>> JobStore::open_lines_by_model(const std::string& id) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(
      const auto rows,
      database_->run("SELECT model, COUNT(*) FROM lines WHERE job = ?1 AND failed IS NULL GROUP BY model", {id}));
  std::map<std::string, int64_t> counts;
  for (const auto& row : rows) counts[text_of(row[0])] = integer_of(row[1]);
  return counts;
}

Result<std::vector<JobInputLine>> JobStore::open_lines(const std::string& id, const std::string& model, int64_t after,
                                                       int64_t limit) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(
      const auto rows,
      database_->run("SELECT number, offset, bytes FROM lines WHERE job = ?1 AND model = ?2 AND failed IS NULL "
                     "AND number > ?3 ORDER BY number LIMIT ?4",
                     {id, model, after, limit}));
  std::vector<JobInputLine> lines;
  for (const auto& row : rows) {
    lines.push_back(
        {.number = integer_of(row[0]), .offset = integer_of(row[1]), .bytes = integer_of(row[2]), .model = model});
  }
  return lines;
}

Result<int64_t> JobStore::results_bytes(const std::string& id) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(const auto rows, database_->run("SELECT results_bytes FROM jobs WHERE id = ?1", {id}));
  return rows.empty() ? 0 : integer_of(rows[0][0]);
}

Status JobStore::answered(const std::string& id, const std::vector<AnsweredLine>& lines, int64_t results_bytes) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  QUERN_TRY(transaction.begin());
  int64_t done = 0, failed = 0;
  for (const AnsweredLine& line : lines) {
    QUERN_TRY(
        database_->run("UPDATE lines SET failed = ?3, result_offset = ?4, result_bytes = ?5 "
                       "WHERE job = ?1 AND number = ?2",
                       {id, line.number, int64_t{line.failed}, line.offset, line.bytes}));
    ++(line.failed ? failed : done);
  }
  QUERN_TRY(database_->run("UPDATE jobs SET done = done + ?2, failed = failed + ?3, results_bytes = ?4 WHERE id = ?1",
                           {id, done, failed, results_bytes}));
  return transaction.commit();
}

Result<std::vector<AnsweredLine>> JobStore::answered_lines(const std::string& id, int64_t after, int64_t limit) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(const auto rows,
               database_->run("SELECT number, failed, result_offset, result_bytes FROM lines WHERE job = ?1 AND "
                              "number > ?2 AND failed IS NOT NULL ORDER BY number LIMIT ?3",
                              {id, after, limit}));
  std::vector<AnsweredLine> lines;
  for (const auto& row : rows) {
    lines.push_back({.number = integer_of(row[0]),
                     .failed = integer_of(row[1]) != 0,
                     .offset = integer_of(row[2]),
                     .bytes = integer_of(row[3])});
  }
  return lines;
}

Status JobStore::log(const std::string& id, int64_t now, const std::string& text) {
  const std::lock_guard lock(mutex_);
  QUERN_TRY(
      database_->run("INSERT INTO job_log (job, number, time, text) SELECT ?1, COALESCE(MAX(number), 0) + 1, ?2, "
                     "?3 FROM job_log WHERE job = ?1 HAVING COALESCE(MAX(number), 0) < ?4",
                     {id, now, text.substr(0, 2000), kLogLinesMax}));
  return {};
}

Result<std::vector<JobLogLine>> JobStore::log_lines(const std::string& id, int64_t from, int64_t limit) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(const auto rows, database_->run("SELECT number, time, text FROM job_log WHERE job = ?1 AND number >= ?2 "
                                               "ORDER BY number LIMIT ?3",
                                               {id, from, limit}));
  std::vector<JobLogLine> lines;
  for (const auto& row : rows) {
    lines.push_back({.number = integer_of(row[0]), .time = integer_of(row[1]), .text = text_of(row[2])});
  }
  return lines;
}

}  // namespace quern
