#include "platform/fleet/fleet_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS models (number INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT UNIQUE NOT NULL, "
    "spec TEXT NOT NULL, created INTEGER NOT NULL, awake INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS workers (replica TEXT PRIMARY KEY, uid TEXT NOT NULL, pid INTEGER NOT NULL, "
    "start_time INTEGER NOT NULL, address TEXT NOT NULL, base_path TEXT NOT NULL, api_key TEXT NOT NULL, "
    "model TEXT NOT NULL, digest TEXT NOT NULL, started_ms INTEGER NOT NULL, dismissed INTEGER NOT NULL, "
    "node TEXT NOT NULL DEFAULT '', devices TEXT NOT NULL DEFAULT '') WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS nodes (name TEXT PRIMARY KEY, joined TEXT NOT NULL, drains INTEGER NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, uid TEXT NOT NULL, "
    "replica TEXT NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS events_of ON events (uid, id);";

// Opens, and looks at every page: a file whose first pages are sound may be broken behind.
Result<std::unique_ptr<Database>> open_checked(const fs::path& path) {
  QUERN_ASSIGN(auto database, Database::open(path, kSchema));
  QUERN_ASSIGN(const auto rows, database->run("PRAGMA quick_check(1)"));
  if (rows.empty() || text_of(rows[0][0]) != "ok") {
    return io_error(fmt::format("{}: {}", path.string(), rows.empty() ? "no answer" : text_of(rows[0][0])));
  }
  // Of a file from before there were machines, or budgets of devices.
  for (const char* column : {"node", "devices"}) {
    QUERN_ASSIGN(const auto has, database->run("SELECT count(*) FROM pragma_table_info('workers') WHERE name = ?1",
                                               {std::string(column)}));
    if (integer_of(has[0][0]) > 0) continue;
    QUERN_TRY(database->run(fmt::format("ALTER TABLE workers ADD COLUMN {} TEXT NOT NULL DEFAULT ''", column)));
  }
  return database;
}

// With its write-ahead log, which belongs to it.
Result<fs::path> set_aside(const fs::path& path) {
  std::error_code error;
  for (int32_t number = 1; number < 1000; ++number) {
    const fs::path target = path.string() + fmt::format(".broken-{}", number);
    if (fs::exists(target, error)) continue;
    for (const char* suffix : {"-wal", "-shm"}) {
      if (fs::exists(path.string() + suffix, error))
        fs::rename(path.string() + suffix, target.string() + suffix, error);
    }
    fs::rename(path, target, error);
    if (error) return io_error(fmt::format("{}: {}", path.string(), error.message()));
    return target;
  }
  return io_error(fmt::format("{}: a thousand broken ones lie beside it", path.string()));
}

}  // namespace

Result<std::unique_ptr<FleetStore>> FleetStore::open(const fs::path& folder, std::vector<std::string>& notes) {
  std::error_code error;
  fs::create_directories(folder, error);
  // Sockets and keys of workers are in it.
  if (error || ::chmod(folder.c_str(), 0700) != 0) {
    return io_error(fmt::format("{}: {}", folder.string(), error ? error.message() : std::strerror(errno)));
  }
  std::unique_ptr<FleetStore> store(new FleetStore());
  const fs::path lock = folder / "lock";
  store->lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (store->lock_fd_ < 0) return io_error(fmt::format("{}: {}", lock.string(), std::strerror(errno)));
  if (::flock(store->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: another process runs the models of this folder", folder.string()));
  }
  const fs::path path = folder / "fleet.db";
  auto database = open_checked(path);
  if (!database && fs::exists(path, error)) {
    const std::string why = database.error().message;
    QUERN_ASSIGN(const fs::path aside, set_aside(path));
    notes.push_back(fmt::format("{}; it is set aside as {}: launched models are forgotten", why, aside.string()));
    database = open_checked(path);
  }
  if (!database) return std::unexpected(database.error());
  store->database_ = std::move(*database);
  return store;
}

FleetStore::~FleetStore() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Result<std::vector<StoredModelRow>> FleetStore::models(std::vector<std::string>& notes) {
  QUERN_ASSIGN(const auto rows, database_->run("SELECT uid, spec, created, awake FROM models ORDER BY number"));
  std::vector<StoredModelRow> models;
  for (const auto& row : rows) {
    auto spec = stored_launch_spec(text_of(row[1]));
    if (!spec) {
      notes.push_back(fmt::format("launched model {} cannot be read: {}", text_of(row[0]), spec.error().message));
      continue;
    }
    models.push_back({.spec = std::move(*spec), .created = integer_of(row[2]), .awake = integer_of(row[3]) != 0});
  }
  return models;
}

Result<std::vector<StoredWorkerRow>> FleetStore::workers() {
  QUERN_ASSIGN(const auto rows,
               database_->run("SELECT replica, uid, pid, start_time, address, base_path, api_key, model, digest, "
                              "started_ms, dismissed, node, devices FROM workers ORDER BY replica"));
  std::vector<StoredWorkerRow> workers;
  for (const auto& row : rows) {
    workers.push_back({.replica = text_of(row[0]),
                       .uid = text_of(row[1]),
                       .node = text_of(row[11]),
                       .process = {.pid = integer_of(row[2]), .start_time = integer_of(row[3])},
                       .address = text_of(row[4]),
                       .base_path = text_of(row[5]),
                       .api_key = text_of(row[6]),
                       .model = text_of(row[7]),
                       .digest = text_of(row[8]),
                       .started_ms = integer_of(row[9]),
                       .dismissed = integer_of(row[10]) != 0,
                       .devices = text_of(row[12])});
  }
  return workers;
}

Status FleetStore::put_model(const StoredModelRow& row) {
  QUERN_TRY(
      database_->run("INSERT INTO models (uid, spec, created, awake) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (uid) "
                     "DO UPDATE SET spec = ?2, created = ?3, awake = ?4",
                     {row.spec.uid, dump_json(row.spec.to_json()), row.created, int64_t{row.awake}}));
  return {};
}

Status FleetStore::remove_model(const std::string& uid) {
  for (const char* table : {"workers", "events", "models"}) {
    QUERN_TRY(database_->run(fmt::format("DELETE FROM {} WHERE uid = ?1", table), {uid}));
  }
  return {};
}

Status FleetStore::put_worker(const StoredWorkerRow& row) {
  QUERN_TRY(database_->run(
      "INSERT OR REPLACE INTO workers (replica, uid, pid, start_time, address, base_path, api_key, "
      "model, digest, started_ms, dismissed, node, devices) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
      "?12, ?13)",
      {row.replica, row.uid, row.process.pid, row.process.start_time, row.address, row.base_path, row.api_key,
       row.model, row.digest, row.started_ms, int64_t{row.dismissed}, row.node, row.devices}));
  return {};
}

Status FleetStore::remove_worker(const std::string& replica) {
  QUERN_TRY(database_->run("DELETE FROM workers WHERE replica = ?1", {replica}));
  return {};
}

Result<std::vector<StoredNodeRow>> FleetStore::nodes(std::vector<std::string>& notes) {
  QUERN_ASSIGN(const auto rows, database_->run("SELECT name, joined, drains FROM nodes ORDER BY name"));
  std::vector<StoredNodeRow> nodes;
  for (const auto& row : rows) {
    StoredNodeRow node;
    node.drains = integer_of(row[2]) != 0;
    if (text_of(row[0]) == kThisNode) {
      node.join.name = kThisNode;
      nodes.push_back(std::move(node));
      continue;
    }
    const auto json = parse_json(text_of(row[1]), "stored machine");
    auto join = json ? node_join_from_json(*json) : Result<NodeJoin>(std::unexpected(json.error()));
    if (!join) {
      notes.push_back(fmt::format("machine {} cannot be read: {}", text_of(row[0]), join.error().message));
      continue;
    }
    node.join = std::move(*join);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Status FleetStore::put_node(const StoredNodeRow& row) {
  NodeJoin join = row.join;
  join.machine.devices = Json::array();  // as the next heartbeat tells
  QUERN_TRY(database_->run("INSERT OR REPLACE INTO nodes (name, joined, drains) VALUES (?1, ?2, ?3)",
                           {row.join.name, dump_json(to_json(join)), int64_t{row.drains}}));
  return {};
}

Status FleetStore::remove_node(const std::string& name) {
  QUERN_TRY(database_->run("DELETE FROM nodes WHERE name = ?1", {name}));
  return {};
}

Result<std::vector<FleetEvent>> FleetStore::events() {
  QUERN_ASSIGN(const auto rows,
               database_->run("SELECT id, time_ms, uid, replica, kind, message FROM events ORDER BY id"));
  std::vector<FleetEvent> events;
  for (const auto& row : rows) {
    events.push_back({.id = integer_of(row[0]),
                      .time_ms = integer_of(row[1]),
                      .uid = text_of(row[2]),
                      .replica = text_of(row[3]),
                      .kind = text_of(row[4]),
                      .message = text_of(row[5])});
  }
  return events;
}

Status FleetStore::add_event(const FleetEvent& event) {
  QUERN_TRY(
      database_->run("INSERT OR REPLACE INTO events (id, time_ms, uid, replica, kind, message) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                     {event.id, event.time_ms, event.uid, event.replica, event.kind, event.message}));
  QUERN_TRY(
      database_->run("DELETE FROM events WHERE uid = ?1 AND id <= (SELECT id FROM events WHERE uid = ?1 "
                     "ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                     {event.uid, kEventsMax}));
  return {};
}

}  // namespace quern
