// The fleet's thread: it holds the wished models, their workers and the store, asks the planner what to do and does it.
// Every function but run() and stop() runs on that thread. Internal to platform/fleet.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "platform/fleet/device_watch.h"
#include "platform/fleet/fleet_state.h"
#include "platform/fleet/fleet_store.h"
#include "platform/fleet/worker_probe.h"

namespace quern {

class FleetOwner {
 public:
  FleetOwner(FleetOptions options, std::shared_ptr<FleetShared> shared, std::unique_ptr<FleetStore> store,
             std::unique_ptr<WorkerProbes> probes);

  // Before the thread: reads the store, adopts what runs, ends what belongs to nobody.
  Status restore(std::vector<std::string> notes);
  void run();   // until stop()
  void stop();  // any thread

  // Commands. `reply` is called once what the command did can be seen by readers.
  using Reply = std::function<void(Result<std::string>)>;
  void launch(LaunchSpec spec, ModelFacts facts, Reply reply);
  void update(LaunchSpec spec, ModelFacts facts, Reply reply);
  void change_adapter(const std::string& uid, LaunchAdapter adapter, const std::vector<uint64_t>& told, Reply reply);
  void terminate(const std::string& uid, Reply reply);
  void set_replicas(const std::string& uid, int32_t count, Reply reply);
  void stop_replica(const std::string& uid, const std::string& replica, Reply reply);
  void unload(const std::string& uid, Reply reply);
  void wait_for_replica(FleetWaiter waiter);
  void suspect(const std::string& uid, uint64_t life);  // a request found it broken

  // Of machines: fleet_nodes.cc.
  using WishReply = std::function<void(Result<std::vector<NodeWish>>)>;
  void join(NodeJoin join, Reply reply);
  Status check_node_key(const std::string& name, const std::string& key);
  void heartbeat(const std::string& name, const std::string& key, NodeReport report, const WishReply& reply);
  void set_node_draining(const std::string& name, bool draining, Reply reply);
  void remove_node(const std::string& name, Reply reply);
  // Waits a while until this machine's devices are known: for who asks for one of them. Any thread.
  void wait_for_devices(const LaunchSpec& spec) const;
  // May any machine but this one run it?
  bool suits_any_node(const LaunchSpec& spec) const;

 private:
  // fleet_owner.cc: commands, the loop.
  Result<FleetModel*> find(const std::string& uid);
  void set_spec(FleetModel& model, LaunchSpec spec);
  void turn();
  std::chrono::milliseconds sleep_time() const;
  void forgive_own_pause();
  void wake(FleetModel& model);
  void serve_waiters(FleetModel& model);
  void refuse_waiters(FleetModel& model, RouteRefusal::Reason reason, const std::string& message,
                      int32_t retry_after_s);
  void shut_down();
  Status save(const FleetModel& model);
  void stored(const Status& status);  // what could not be stored is tried again later
  void save_all();
  void note(const std::string& text) const;
  void event(const FleetModel& model, const std::string& replica, const std::string& kind, std::string message);

  // fleet_actions.cc: the planner's input, and its actions.
  void decide();
  PlanInput plan_input();
  void apply(const PlanAction& action);
  void set_awake(FleetModel& model, bool awake);
  void add_replica(FleetModel& model);
  void remove_replica(FleetModel& model, size_t row_idx);
  void forget(FleetModel& model);
  void start_pull(FleetModel& model);
  void poll_pull(FleetModel& model);
  void pull_failed(FleetModel& model, const std::string& why, bool is_final);

  // fleet_workers.cc: processes.
  void begin_load(const FleetModel& model, FleetReplica& replica);
  std::string served_name(const FleetModel& model) const;  // what workers of this machine call it
  void start_worker(FleetModel& model, FleetReplica& replica, std::vector<std::string> devices);
  Result<WorkerPlace> make_place(const FleetModel& model, const FleetReplica& replica) const;
  void adopt(const StoredWorkerRow& row, FleetModel& model);
  void end_strays(const std::set<int64_t>& known_pids);
  void poll_workers();
  void ask_workers();
  void answered(const WorkerProbes::Answer& answer);
  void became_ready(FleetModel& model, FleetReplica& replica);
  void show_router(const FleetModel& model, const FleetReplica& replica);  // the replica as it serves now
  void worker_ended(FleetModel& model, FleetReplica& replica, const WorkerProcess::End& end);
  void worker_failed(FleetModel& model, FleetReplica& replica, const std::string& why, bool is_final);
  void clean_up(FleetModel& model, FleetReplica& replica);
  void measure();
  StoredWorkerRow stored_row(const FleetModel& model, const FleetReplica& replica) const;
  std::string mark(const std::string& name) const;

  // fleet_nodes.cc: other machines.
  void restore_nodes(const std::vector<StoredNodeRow>& rows);
  FleetNode* find_node(const std::string& name);
  int32_t place_of(const std::string& node) const;  // as the planner counts
  std::vector<bool> suitable_places(const FleetModel& model, bool with_devices) const;
  void start_on_node(FleetModel& model, FleetReplica& replica, FleetNode& node, std::vector<std::string> devices);
  void adopt_on_node(const StoredWorkerRow& row, FleetModel& model);
  void watch_nodes();
  void lose(FleetNode& node, const std::string& why);
  void told(FleetNode& node, FleetModel& model, FleetReplica& replica, const NodeReplica* report);
  std::vector<NodeWish> wishes_for(const FleetNode& node) const;
  bool node_answered(const WorkerProbes::Answer& answer);
  std::vector<NodeView> node_views() const;
  bool is_ready(const FleetNode& node) const { return node.heard && !node.lost; }

  // fleet_devices.cc: memory that is not the machine's own.
  void set_devices(std::vector<DeviceMemory> found, int64_t begun_ms);
  void look_for(const LaunchSpec& spec);     // devices are measured now, and often, if it wants one
  void free_devices(FleetReplica& replica);  // it has none any more
  static std::vector<std::string> adopted_devices(const StoredWorkerRow& row, const FleetModel& model);
  std::vector<PlanDevice> plan_devices(const std::string& node, const FleetDevices& devices, int64_t measured_ms) const;
  Status check_here(const LaunchSpec& spec) const;                           // may this machine run it?
  bool has_wished_devices(const LaunchSpec& spec) const;                     // this machine
  Status check_room(const LaunchSpec& spec, const ModelFacts& facts) const;  // that it can fit anywhere, some time
  std::optional<int64_t> room_max(const LaunchSpec& spec, const std::vector<DeviceMemory>& devices, int64_t budget,
                                  std::string& where) const;
  std::string device_of(const FleetModel& model, const FleetReplica& replica) const;  // what its start is told

  // fleet_view.cc
  void publish();
  ModelView view_of(const FleetModel& model) const;
  ReplicaView view_of(const FleetModel& model, const FleetReplica& replica) const;

  static constexpr size_t kWaitersMax = 1024;       // of one model
  static constexpr int64_t kLogBytesMax = 8 << 20;  // of a replica's log, and as much of the one before
  static constexpr int32_t kModelsMax = 1024;
  static constexpr size_t kNodesMax = 256;

  FleetOptions options_;
  std::shared_ptr<FleetShared> shared_;
  std::unique_ptr<FleetStore> store_;
  std::unique_ptr<WorkerProbes> probes_;
  std::filesystem::path socket_folder_;
  std::vector<std::unique_ptr<FleetModel>> models_;  // by time of launch
  std::vector<std::unique_ptr<FleetNode>> nodes_;    // by name
  bool drains_here_ = false;
  FleetDevices devices_;  // of this machine
  bool knows_devices_ = false;
  int64_t devices_ms_ = 0;  // when they were begun to be measured
  std::unique_ptr<DeviceWatch> watch_;
  std::vector<std::pair<Reply, Result<std::string>>> replies_;
  int64_t last_event_id_ = 0;
  int64_t budget_bytes_ = 0;
  int64_t measured_ms_ = 0;
  int64_t last_turn_ms_ = 0;
  bool unsaved_ = false;
  int64_t save_retry_ms_ = 0;
  bool changed_ = true;  // readers see something old
  bool stopping_ = false;
};

// The last line of a log that says something; empty when there is none.
std::string last_log_line(const std::filesystem::path& file);
std::string log_file_name(const std::string& replica);  // safe as a file's name
int32_t replica_number(const std::string& replica);     // 3 of "UID-3"

// A folder that this user alone can enter, with a path short enough for sockets in it (sun_path has 108 bytes): below
// `folder`, or else in XDG_RUNTIME_DIR or the system's temporary folder. kPermissionDenied when somebody else made it.
Result<std::filesystem::path> make_socket_folder(const std::filesystem::path& folder);

}  // namespace quern
