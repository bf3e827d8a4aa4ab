// Machines beside this one that run models for its fleet: what they say of themselves, what they are asked to run, and
// the door through which both pass. Plain data, JSON in both directions; the agent on the other machine is
// node_agent.h's.
//
// A node joins with a key of its own making, which both sides use from then on: the node in its heartbeats, the fleet
// in its requests. A heartbeat brings what runs there and takes back what shall run: whatever a node has and is not
// told to keep, it ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "platform/fleet/fleet.h"
#include "platform/fleet/launch_spec.h"
#include "quern/status.h"

namespace quern {

inline constexpr const char* kThisNode = "local";  // the name of this machine among nodes

struct NodeMachine {
  std::string version;
  int64_t memory_total = 0, memory_free = 0;  // bytes
  int64_t memory_budget = 0;                  // for models, what runs included
  double cpu_load = 0;                        // processes that compute or wait to, on average of the last minute
  int32_t cpu_count = 0;
  Json devices = Json::array();      // as /v1/devices lists them, the processor first; empty: not known yet
  std::vector<std::string> engines;  // that it has programs for
};

// One that runs on a node. `name` is the fleet's word for this run of a replica, not used again for another.
struct NodeReplica {
  std::string name;
  ReplicaState state = ReplicaState::kWaiting;
  bool failed = false;  // several times in a row, or in a way that will not pass
  int64_t pid = 0;
  int64_t memory_bytes = 0;
  int32_t restarts = 0;
  double load_seconds = 0;
  double progress = 0;
  std::string message;
};

struct NodeJoin {
  std::string name;     // 1 to 64 of a-z 0-9 . - and not `local`
  std::string address;  // where it listens, "http://10.0.0.2:9998"; https with #sha256//… pins its public key
  std::string key;      // 32 to 128 characters
  std::map<std::string, std::string> labels;
  NodeMachine machine;
};

struct NodeReport {
  NodeMachine machine;
  std::vector<NodeReplica> replicas;
};

struct NodeWish {
  std::string name;
  std::optional<LaunchSpec> spec;  // none: what runs by this name stays, and is not started
};

enum class NodeState : uint8_t {
  kReady,
  kLost,      // not heard, or not reached, for the health timeout
  kDraining,  // heard; its replicas move elsewhere
};
const char* node_state_name(NodeState state);  // "ready"

struct NodeView {
  std::string name;
  NodeState state = NodeState::kLost;
  std::string address;  // without the pin; empty: this machine
  std::map<std::string, std::string> labels;
  NodeMachine machine;
  std::vector<std::string> replicas;  // ids
  double last_seen_s = 0;             // since the last heartbeat
  std::string message;                // why it is lost
  bool local = false;
};

// Thread-safe, as the fleet's own functions are.
class FleetNodes {
 public:
  virtual ~FleetNodes() = default;
  // kPermissionDenied when another machine has the name and is heard; kResourceExhausted.
  virtual Status join(NodeJoin join) = 0;
  // kPermissionDenied: no node of this name has joined with this key; it has to join (again).
  virtual Status check_key(const std::string& name, const std::string& key) = 0;
  // What the node shall run. kPermissionDenied as above.
  virtual Result<std::vector<NodeWish>> heartbeat(const std::string& name, const std::string& key,
                                                  NodeReport report) = 0;
  virtual std::vector<NodeView> list() const = 0;  // this machine first
  // No new replicas, and those there move elsewhere; false: as before. kNotFound.
  virtual Status set_draining(const std::string& name, bool draining) = 0;
  // Forgets the node; its replicas start elsewhere. One that still runs may join again. kInvalidArgument for this
  // machine.
  virtual Status remove(const std::string& name) = 0;
};

// Of this machine now, without devices.
NodeMachine measure_machine(int64_t memory_budget);

// From outside: kInvalidArgument names the field.
Result<NodeJoin> node_join_from_json(const Json& body);
Result<NodeReport> node_report_from_json(const Json& body);
Result<std::vector<NodeWish>> node_wishes_from_json(const Json& body);
Json to_json(const NodeJoin& join);
Json to_json(const NodeReport& report);
Json to_json(const std::vector<NodeWish>& wishes);

bool is_node_name(std::string_view name);
// "k" and "v" of "k=v". kInvalidArgument names the label.
Result<std::pair<std::string, std::string>> parse_node_label(std::string_view text);

// "http://10.0.0.2:9998" of "http://10.0.0.2:9998#sha256//…", and what stands behind the #; empty: nothing.
std::string_view address_without_pin(std::string_view address);
std::string_view pin_of_address(std::string_view address);

// May the node run what the spec asks for? Labels (`name` and `address` are among each node's), device, engine; whether
// there is room is the planner's business. Pure.
bool knows_devices(const NodeMachine& machine);  // its agent has looked once
bool node_suits(const NodeJoin& node, const LaunchSpec& spec);

// The word for one run of a replica on a node, and the name under which clients know its model.
std::string node_replica_name(const std::string& replica, const std::string& run);  // "UID-0@RUN"
std::string uid_of_node_replica(const std::string& name);                           // "UID"
inline constexpr size_t kNodeUidMax = 100;  // characters; a longer uid stays on this machine

}  // namespace quern
