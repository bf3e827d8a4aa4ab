// What the fleet remembers: the wished models, the workers that run, the events. One SQLite file, fleet.db, in the
// fleet's folder, held by one process at a time (a lock on the file `lock` beside it).
//
// A file that cannot be read is set aside as fleet.db.broken-1 (-2 …) and a new one is begun: what was wished is lost,
// what runs is stopped as belonging to nobody. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "platform/database.h"
#include "platform/fleet/fleet.h"
#include "platform/fleet/node.h"
#include "platform/fleet/worker_process.h"
#include "quern/status.h"

namespace quern {

struct StoredModelRow {
  LaunchSpec spec;
  int64_t created = 0;  // seconds since 1970
  bool awake = true;
};

struct StoredWorkerRow {
  std::string replica;  // "UID-0"
  std::string uid;
  std::string node;  // empty: a process of this machine
  ProcessId process;
  std::string address, base_path, api_key, model;
  std::string digest;      // of the options that it was started with
  int64_t started_ms = 0;  // since 1970
  bool dismissed = false;
  std::string devices = {};  // "cuda:0,1"; empty: none
};

struct StoredNodeRow {
  NodeJoin join;  // of this machine (kThisNode) its name alone
  bool drains = false;
};

class FleetStore {
 public:
  // kUnavailable when another process holds the folder; kIo. `notes` gets what was found wrong, a line each.
  static Result<std::unique_ptr<FleetStore>> open(const std::filesystem::path& folder, std::vector<std::string>& notes);
  ~FleetStore();

  // By time of launch. A row that cannot be read is left out, with a note.
  Result<std::vector<StoredModelRow>> models(std::vector<std::string>& notes);
  Result<std::vector<StoredWorkerRow>> workers();
  Status put_model(const StoredModelRow& row);
  Status remove_model(const std::string& uid);  // and its workers and events
  Status put_worker(const StoredWorkerRow& row);
  Status remove_worker(const std::string& replica);

  Result<std::vector<StoredNodeRow>> nodes(std::vector<std::string>& notes);  // by name
  Status put_node(const StoredNodeRow& row);
  Status remove_node(const std::string& name);

  static constexpr int64_t kEventsMax = 1000;  // kept of each model
  Result<std::vector<FleetEvent>> events();    // of all, oldest first
  Status add_event(const FleetEvent& event);

 private:
  FleetStore() = default;

  int lock_fd_ = -1;
  std::unique_ptr<Database> database_;
};

}  // namespace quern
