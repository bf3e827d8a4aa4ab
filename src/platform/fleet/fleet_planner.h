// What the fleet does next: a pure function of what is wished, what runs and the clock. It reads nothing, starts
// nothing and remembers nothing; the fleet's thread applies the actions and asks again until there are none.
//
// Rules. A model that is awake gets its replicas, one that is not gets none. A replica comes in when its estimate fits
// what is left of the budget; when it does not, the least needed model that is idle goes first: never a pinned one,
// never one that is loading or has requests, never one of a higher priority. A model that was sent away comes back by a
// request, not by itself, so two models cannot push each other out without clients asking for both.
//
// Memory comes in pools: "cpu" is a machine's own, every device with memory of its own is another. Each has its budget,
// its loads and its evictions. A replica has its share of each device that its launch names; one that may take any
// device of some kinds gets the freest, and the machine's own memory where none could ever hold it. One that takes
// several gets them of one kind. A device whose free memory has to be measured anew, because something on it has just
// ended or become ready, is waited for.
//
// Places are machines: 0 is this one, the others stand in `nodes`. A replica goes where the fewest of its model are,
// and among those to where most memory is free. One on a machine that is not heard counts no more until the machine is
// back; one on a machine that drains, or that it does not suit any more, is an old one.
//
// Replicas of other options than the wished ones serve until as many new ones are ready. Every time is in milliseconds
// of one steady clock, every size in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/fleet/fleet.h"

namespace quern {

enum class FilesState : uint8_t {
  kHere,
  kMissing,
  kPulling,
  kBackoff,  // a pull has failed; tried again at a later time
};

struct PlanReplica {
  ReplicaState state = ReplicaState::kWaiting;
  bool current = true;        // has, or will have, the options that are wished now
  bool dismissed = false;     // asked to go by its name
  int64_t since_ms = 0;       // in this state
  int64_t retry_ms = 0;       // kBackoff: not before
  int64_t answered_ms = 0;    // kReady: the last answer to a health question, or the begin of the state
  int64_t terminated_ms = 0;  // SIGTERM was sent; 0: not yet
  bool killed = false;        // SIGKILL was sent
  int32_t failures = 0;       // in a row
  int32_t in_flight = 0;
  int64_t bytes = 0;                      // resident
  int32_t place = 0;                      // where it is
  std::vector<std::string> devices = {};  // whose memory it has there; empty: the machine's own
  std::vector<std::string> wish = {};     // devices that it must have, "cuda:0"; empty: as the model says
  int32_t failed_place = -1;              // where it has failed last: gone back to only when there is no other

  bool is_live() const {  // has a process, or an address that is not ours
    return state == ReplicaState::kLoading || state == ReplicaState::kReady || state == ReplicaState::kDraining;
  }
};

struct PlanModel {
  int32_t replicas = 1;  // wished; 0: one, once a request asks
  int32_t priority = 0;
  bool pinned = false;
  bool awake = true;     // shall be in memory
  bool leaving = false;  // is being terminated
  int64_t keep_alive_ms = -1;
  int64_t needs_bytes = 0;         // of one replica; 0: unknown, or none of this machine's
  std::string device;              // "cpu"; empty: computes elsewhere, and counts nowhere
  int32_t num_devices = 1;         // of these kinds, for one replica
  std::vector<std::string> kinds;  // of devices, one of which it takes where a machine has any: "cuda"
  double device_fraction = 0;      // of a device's total that its engine takes, whatever it needs; 0: its need
  FilesState files = FilesState::kHere;
  int64_t files_retry_ms = 0;
  std::vector<bool> suits;       // by place: it may run there; empty: here alone
  std::vector<bool> keeps = {};  // by place: a row that has its devices there may stay; as suits
  int64_t last_used_ms = 0;
  int64_t demand_ms = 0;  // since when somebody waits for it
  int32_t waiting = 0;    // requests
  std::vector<PlanReplica> rows;
};

struct PlanDevice {
  std::string id;                       // "cuda:0"
  std::optional<int64_t> budget_bytes;  // for all models on it, what runs included; none: not known, and not counted
  std::optional<int64_t> total_bytes = {};
  int64_t reserve_bytes = 0;   // that the budget leaves free
  bool is_settling = false;    // something on it has ended, or has become ready, since it was measured
  bool must_be_named = false;  // nobody gets it by its kind alone
};

struct PlanNode {
  int64_t budget_bytes = 0;  // for all models there, what runs included
  std::vector<PlanDevice> devices = {};
  bool knows_devices = true;  // until then nothing that wants one is started there
  bool is_ready = false;      // is heard and can be reached
  bool drains = false;
};

struct PlanInput {
  int64_t now_ms = 0;
  int64_t budget_bytes = 0;  // of this machine, for all models together, what runs included
  std::vector<PlanDevice> devices = {};
  bool knows_devices = true;  // of this machine: until then nothing that wants one is started here
  bool drains = false;        // this machine
  std::vector<PlanNode> nodes;
  int32_t loads_max = 1;  // at once on one device
  int32_t pulls_max = 2;
  int64_t health_timeout_ms = 5000;
  int64_t start_timeout_ms = 600000;
  int64_t drain_timeout_ms = 30000;
  std::vector<PlanModel> models;
};

struct PlanAction {
  enum class Kind : uint8_t {
    kAdd,        // one more row, waiting
    kRemove,     // a row without a process
    kWake,       // a stopped row waits for its start
    kRest,       // a row that waited is stopped
    kPull,       // the model's files
    kStart,      // a process for the row, at the place
    kDrain,      // no new requests
    kTerminate,  // SIGTERM
    kKill,       // SIGKILL
    kForgive,    // the row has been well for long: failures are forgotten
    kUnload,     // the model is idle: not awake any more
    kEvict,      // the same, because another model needs the memory
    kForget,     // a model that was leaving has left
    kWaits,      // the row waits, and why
  };
  Kind kind = Kind::kAdd;
  int32_t model_idx = 0;
  int32_t row_idx = -1;
  std::string reason;                     // one line; of kWaits, kKill, kDrain, kEvict
  int32_t place = 0;                      // of kStart
  std::vector<std::string> devices = {};  // of kStart: whose memory it gets; empty: the machine's own
};

std::vector<PlanAction> plan_fleet(const PlanInput& input);

// How long a replica rests after so many failures in a row: 0.5 s, doubling, at most 30 s.
int64_t backoff_ms(int32_t failures);

inline constexpr int64_t kForgiveMs = 60000;    // of health, after which failures are forgotten
inline constexpr int64_t kStopGraceMs = 10000;  // from SIGTERM to SIGKILL, or the drain timeout if that is less
inline constexpr int64_t kResidencyMs = 1000;   // a model that has just come is not sent away at once

// Replicas that shall run.
int32_t wanted_replicas(const PlanModel& model);

}  // namespace quern
