// What the fleet's thread owns. Internal to platform/fleet.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/fleet/device_wish.h"
#include "platform/fleet/fleet.h"
#include "platform/fleet/fleet_planner.h"
#include "platform/fleet/model_facts.h"
#include "platform/fleet/node.h"
#include "platform/fleet/router.h"
#include "platform/fleet/worker_kind.h"
#include "platform/fleet/worker_process.h"

namespace quern {

// One row of the planner with the process behind it. The planner's fields that are copies of others (in_flight, bytes)
// are filled in when it is asked.
struct FleetReplica {
  std::string id;                    // "UID-0"
  std::string node;                  // where it is; empty: this machine, or nowhere
  std::string failed_node;           // where it has failed last, kThisNode among them
  std::vector<std::string> devices;  // whose memory it has there; empty: the machine's own
  int64_t node_pid = 0;
  double node_progress = 0;
  ReplicaState node_state = ReplicaState::kLoading;  // as its node calls it, while it loads
  PlanReplica plan;
  std::string digest;                    // of the options that its process was started with
  std::string engine;                    // of these
  std::vector<LaunchAdapter> adapters;   // of these
  std::optional<WorkerProcess> process;  // none: it does not run, or is at a URL
  std::string address, base_path, api_key, model, health_path;
  uint64_t life = 0;  // of the router; also the name of its health question
  int64_t asked_ms = 0;
  int64_t started_ms = 0;  // since 1970
  bool adopted = false;    // and has not answered yet
  int32_t restarts = 0;
  double load_seconds = 0;
  ProcessMemory memory;
  std::string message;
  std::filesystem::path log_file;
};

// The memory of a machine's devices, as it was measured last.
struct FleetDevices {
  std::vector<DeviceMemory> found;
  std::map<std::string, int64_t> freed_ms;  // when a replica on it ended last, by device
};

// A machine that has joined. Its heartbeats and its answers to our own questions tell whether it is there.
struct FleetNode {
  NodeJoin join;
  FleetDevices devices;
  bool drains = false;
  bool heard = false;  // since it joined, or since this fleet was opened
  bool lost = true;
  int64_t heard_ms = 0, answered_ms = 0;  // the last of each, or when we began to wait for them
  int64_t asked_ms = 0;
  uint64_t life = 0;  // the name of our questions
};

using LeaseDone = std::function<void(Fleet::LeaseResult)>;

// A request that waits for a replica.
struct FleetWaiter {
  RouteRequest request;
  uint64_t tried_life = 0;
  int64_t since_ms = 0, deadline_ms = 0;
  LeaseDone done;
};

struct FleetModel {
  LaunchSpec spec;
  ModelFacts facts;
  std::string digest;   // of the options that are wished now
  int64_t created = 0;  // seconds since 1970
  bool awake = true, leaving = false;
  int64_t demand_ms = 0;
  int64_t woken_ms = 0;
  FilesState files = FilesState::kHere;
  int64_t files_retry_ms = 0;
  int32_t files_failures = 0;
  double files_progress = 0;
  std::optional<WorkerProcess> pull;
  std::filesystem::path pull_log;
  bool runs_here = true;  // this machine has its engine's program and its device
  bool failed = false;    // and nobody is told to wait
  std::string message;
  std::vector<FleetReplica> replicas;
  std::deque<FleetWaiter> waiters;
};

// What leases and readers share with the fleet's thread. Thread-safe: each part under its lock.
struct FleetShared {
  std::mutex router_mutex;
  Router router;      // guarded by router_mutex
  uint64_t life = 0;  // the last one given; guarded by router_mutex

  std::mutex view_mutex;
  std::shared_ptr<const std::vector<ModelView>> views;  // guarded by view_mutex
  std::vector<NodeView> nodes;                          // this machine first; guarded by view_mutex
  std::map<std::string, std::vector<WorkerWay>> ways;   // by uid; guarded by view_mutex
  int64_t memory_budget = 0;                            // of this machine; guarded by view_mutex
  std::vector<FleetEvent> events;                       // of all, oldest first; guarded by view_mutex

  std::mutex mail_mutex;
  std::vector<std::function<void()>> mail;  // guarded by mail_mutex
  bool closed = false;                      // nobody reads any more; guarded by mail_mutex
  std::function<void()> wake;               // guarded by mail_mutex

  // False: the fleet has ended.
  bool post(std::function<void()> task) {
    const std::lock_guard lock(mail_mutex);
    if (closed) return false;
    mail.push_back(std::move(task));
    wake();
    return true;
  }
};

int64_t steady_ms();
int64_t unix_ms();

// Of the options that a running worker would have to be restarted for.
std::string spec_digest(const LaunchSpec& spec);

// A lease of `pick`; finishing it goes to the router, and a broken one to `suspect`.
std::unique_ptr<Lease> make_lease(std::shared_ptr<FleetShared> shared, std::string uid, Router::Pick pick,
                                  std::function<void(const std::string& uid, uint64_t life)> suspect);

}  // namespace quern
