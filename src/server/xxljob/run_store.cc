#include "server/xxljob/run_store.h"

#include "base/status.h"

namespace quern::xxljob {
namespace {

constexpr const char* kRunsSchema =
    "CREATE TABLE IF NOT EXISTS runs (number INTEGER PRIMARY KEY AUTOINCREMENT, log_id INTEGER NOT NULL, "
    "log_time INTEGER NOT NULL, job_id INTEGER NOT NULL, handler TEXT NOT NULL, params TEXT NOT NULL, "
    "timeout_s INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, target TEXT NOT NULL DEFAULT '', "
    "started INTEGER NOT NULL DEFAULT 0, code INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '', "
    "told INTEGER NOT NULL DEFAULT 0, UNIQUE (log_id, log_time));"
    "CREATE INDEX IF NOT EXISTS runs_open ON runs (number) WHERE told = 0;";

Run run_of(const Database::Row& row) {
  return {.trigger = {.job_id = integer_of(row[2]),
                      .log_id = integer_of(row[0]),
                      .log_time = integer_of(row[1]),
                      .handler = text_of(row[3]),
                      .params = text_of(row[4]),
                      .timeout_s = integer_of(row[5])},
          .state = static_cast<Run::State>(integer_of(row[6])),
          .target = text_of(row[7]),
          .started = integer_of(row[8]),
          .code = static_cast<int>(integer_of(row[9])),
          .message = text_of(row[10])};
}

}  // namespace

Result<std::unique_ptr<RunStore>> RunStore::open(const std::filesystem::path& path) {
  std::unique_ptr<RunStore> store(new RunStore());
  QUERN_ASSIGN(store->database_, Database::open(path, kRunsSchema));
  return store;
}

Result<std::vector<Run>> RunStore::select(const std::string& rest, const std::vector<Database::Value>& values) {
  QUERN_ASSIGN(const auto rows, database_->run("SELECT log_id, log_time, job_id, handler, params, timeout_s, state, "
                                               "target, started, code, message FROM runs " +
                                                   rest,
                                               values));
  std::vector<Run> runs;
  for (const auto& row : rows) runs.push_back(run_of(row));
  return runs;
}

Result<bool> RunStore::add(const Trigger& trigger) {
  QUERN_ASSIGN(const auto open, database_->run("SELECT COUNT(*) FROM runs WHERE told = 0 AND state < 2"));
  if (integer_of(open[0][0]) >= kOpenMax) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("{} runs wait already", kOpenMax));
  }
  QUERN_TRY(
      database_->run("DELETE FROM runs WHERE told = 1 AND number <= (SELECT number FROM runs WHERE told = 1 "
                     "ORDER BY number DESC LIMIT 1 OFFSET ?1)",
                     {kEndedMax}));
  QUERN_ASSIGN(const auto rows,
               database_->run("INSERT OR IGNORE INTO runs (log_id, log_time, job_id, handler, params, timeout_s) "
                              "VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING number",
                              {trigger.log_id, trigger.log_time, trigger.job_id, trigger.handler, trigger.params,
                               trigger.timeout_s}));
  return !rows.empty();
}

Result<std::vector<Run>> RunStore::open_runs() {
  return select("WHERE told = 0 AND state < 2 ORDER BY number", {});
}

Result<std::optional<Run>> RunStore::find(int64_t log_id, int64_t log_time) {
  // An admin that asks by the id alone means the newest.
  QUERN_ASSIGN(auto runs, select("WHERE log_id = ?1 AND (log_time = ?2 OR ?2 = 0) ORDER BY number DESC LIMIT 1",
                                 {log_id, log_time}));
  if (runs.empty()) return std::nullopt;
  return std::move(runs[0]);
}

Status RunStore::begin(const Trigger& trigger, const std::string& target, int64_t now) {
  QUERN_TRY(
      database_->run("UPDATE runs SET state = 1, target = ?3, started = ?4 WHERE log_id = ?1 AND log_time = ?2 "
                     "AND state = 0",
                     {trigger.log_id, trigger.log_time, target, now}));
  return {};
}

Status RunStore::end(const Trigger& trigger, int code, const std::string& message) {
  QUERN_TRY(
      database_->run("UPDATE runs SET state = 2, code = ?3, message = ?4 WHERE log_id = ?1 AND log_time = ?2 "
                     "AND state < 2",
                     {trigger.log_id, trigger.log_time, int64_t{code}, message}));
  return {};
}

Result<std::vector<Ending>> RunStore::untold(int64_t limit) {
  QUERN_ASSIGN(const auto runs, select("WHERE told = 0 AND state = 2 ORDER BY number LIMIT ?1", {limit}));
  std::vector<Ending> endings;
  for (const Run& run : runs) {
    endings.push_back(
        {.log_id = run.trigger.log_id, .log_time = run.trigger.log_time, .code = run.code, .message = run.message});
  }
  return endings;
}

Status RunStore::told(const std::vector<Ending>& endings) {
  for (const Ending& ending : endings) {
    QUERN_TRY(database_->run("UPDATE runs SET told = 1 WHERE log_id = ?1 AND log_time = ?2",
                             {ending.log_id, ending.log_time}));
  }
  return {};
}

}  // namespace quern::xxljob
