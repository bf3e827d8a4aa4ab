// The fleet: the models that shall serve, the worker processes that do, and which of them gets a request. The door of
// this folder: with launch_spec.h all that others include.
//
// The wished state is in a database; workers are processes of their own that outlive the fleet's process and are
// adopted again. One thread owns all state and decides by a pure planner (fleet_planner.h); the functions here are
// thread-safe and wait at most for that thread, never for a worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/fleet/launch_spec.h"
#include "quern/status.h"

namespace quern {

enum class ReplicaState : uint8_t {
  kWaiting,  // for memory, or for another load to end
  kPulling,  // its files are on their way
  kLoading,  // the process runs and does not answer yet
  kReady,
  kDraining,  // gets no new requests; stops when the last has ended
  kBackoff,   // died or could not start; tried again at a later time
  kStopped,   // a copy that is not wanted now: idle, evicted, or not asked for yet
  kLost,      // its machine is not heard: it may still run, and comes back with it if it is still wanted
};
const char* replica_state_name(ReplicaState state);  // "ready"

struct ReplicaView {
  std::string id;  // "UID-0"
  ReplicaState state = ReplicaState::kStopped;
  std::string node;     // the machine: "local", or a worker machine's name
  std::string address;  // "unix:/…/w.sock" or "http://127.0.0.1:4711"; empty: none
  int64_t pid = 0;      // 0: no process of this machine
  int32_t restarts = 0;
  int32_t in_flight = 0;
  int64_t memory_bytes = 0;          // resident now
  double load_seconds = 0;           // of the last load
  double progress = 0;               // of pull and load, 0 to 1
  std::string message;               // why it waits or failed, one line
  std::vector<std::string> devices;  // whose memory it has, "cuda:0" …; empty: the machine's own
  std::filesystem::path log_file;    // empty: its machine has it
};

// How a replica is asked by this process: its worker, or the server of the machine that runs it.
struct WorkerWay {
  std::string replica;                            // "UID-0"
  std::string node;                               // as in ReplicaView
  std::string address;                            // as in ReplicaView, with the pin of a machine's key (see NodeJoin)
  std::string base_path, api_key, model, engine;  // as in Lease; the engine of another machine is its server, "quern"
  bool ready = false;
  uint64_t life = 0;  // another after each start
};

// As Xinference's clients name them.
enum class ModelState : uint8_t { kCreating, kLoading, kReady, kError, kTerminating, kTerminated };
const char* model_state_name(ModelState state);  // "READY"

struct ModelView {
  LaunchSpec spec;
  ModelState state = ModelState::kCreating;
  bool idle = false;            // scaled to zero: the next request loads it (state stays kReady)
  int64_t created = 0;          // seconds since 1970
  int64_t memory_estimate = 0;  // bytes of one replica; 0 unknown
  double progress = 0;
  std::string message;
  std::string model;   // what the worker was started with: a path, a name
  std::string family;  // of the catalogue
  std::string format, quantization, size;
  std::vector<std::string> abilities;
  int64_t context = 0;  // tokens
  int64_t dimensions = 0;
  std::vector<ReplicaView> replicas;
};

struct FleetEvent {
  int64_t id = 0;       // rising
  int64_t time_ms = 0;  // since 1970
  std::string uid;
  std::string replica;  // or empty
  std::string
      kind;  // "launched", "loading", "ready", "died", "stuck", "restarting", "unloaded", "evicted", "adopted" …
  std::string message;
};

struct FleetOptions {
  std::filesystem::path folder;     // $QUERN_HOME/fleet: database, sockets, logs. One fleet at a time holds it
  std::filesystem::path program;    // of our own workers: this binary
  int64_t memory_budget_bytes = 0;  // for models of this machine; 0: measured when one is placed, less a reserve
  double memory_reserve = 0.1;      // of the machine's memory that stays free
  int32_t loads_max = 1;            // at once on one device
  std::chrono::milliseconds first_look_max{10000};  // so long a launch waits until devices are known; 0: not at all
  std::chrono::milliseconds health_interval{1000};
  std::chrono::milliseconds health_timeout{5000};   // no answer for so long: stuck, killed and restarted
  std::chrono::milliseconds start_timeout{600000};  // a load that takes longer has failed
  std::chrono::milliseconds drain_timeout{30000};
  bool stop_workers_at_end = false;  // by default they stay and are adopted by the next fleet
  // What a worker calls its model, by the model's uid; none: the uid.
  std::function<std::string(const std::string& uid)> served_name;
  // How a free-form note goes to the log of the server.
  std::function<void(const std::string&)> log;
};

// What a client's word for a model means.
struct ServedName {
  std::string uid;
  std::string adapter;  // of that model; empty: the model itself
};

// What a request is, as far as choosing a replica goes.
struct RouteRequest {
  std::string uid;
  std::string adapter;             // goes only where it was loaded; empty: none
  uint64_t session = 0;            // same value, same replica while it lasts; 0: none
  std::vector<uint64_t> prefix;    // chained hashes of the prompt's pieces, first to last; may be empty
  std::vector<std::string> tried;  // replicas that have failed this request already
};

// A replica lent to one request. Ends when destroyed, or by finish().
class Lease {
 public:
  enum class Outcome : uint8_t {
    kOk,          // an answer came, whatever its status
    kRefused,     // no connection: the worker is gone
    kBroken,      // the connection broke under way
    kOverloaded,  // the worker said 429 or 503
    kAbandoned,   // the client left; says nothing of the worker
  };
  virtual ~Lease() = default;
  virtual const std::string& replica() const = 0;
  virtual const std::string& address() const = 0;  // as in ReplicaView
  virtual const std::string& base_path()
      const = 0;                                   // of a URL worker: "/v1" stripped of what routes begin with; else ""
  virtual const std::string& api_key() const = 0;  // to be sent as Bearer; empty: none
  virtual const std::string& model() const = 0;    // what the worker calls the model; empty: as the client does
  virtual const std::string& fields() const {      // members that the body gets besides: "\"a\":1"; mostly empty
    static const std::string none;
    return none;
  }
  virtual const std::string& engine() const = 0;  // of LaunchSpec
  virtual void finish(Outcome outcome) = 0;       // at most once
};

// Why there is no lease now. What a client should read.
struct RouteRefusal {
  enum class Reason : uint8_t {
    kUnknownModel,  // 404
    kBusy,          // 429: the model's request_limit, or too many wait for a load
    kUnavailable,   // 503: it failed to load, or no replica is left to try
    kTimeout,       // 503: it did not come up in time
  };
  Reason reason = Reason::kUnavailable;
  std::string message;
  int32_t retry_after_s = 0;  // 0: not known
};

class FleetNodes;  // platform/fleet/node.h

class Fleet {
 public:
  // Opens the state and starts to make it so: living workers are adopted, missing ones started. Errors: kIo, and
  // kUnavailable when another process holds the folder.
  static Result<std::unique_ptr<Fleet>> open(FleetOptions options);
  virtual ~Fleet() = default;  // stops deciding; workers stay unless stop_workers_at_end

  // Returns the uid at once; the model comes up behind it. kInvalidArgument naming the field, kNotFound for the model,
  // kUnsupported for an engine that cannot run it here, kResourceExhausted for one that can never fit.
  virtual Result<std::string> launch(LaunchSpec spec) = 0;
  // Also cancels a launch; its files stay. Nobody is sent to it from now on; it is gone from models(), and its uid is
  // free again, once the last request has ended (or the drain timeout has passed) and its processes are gone.
  virtual Status terminate(const std::string& uid) = 0;
  // The same name with other options, replicas one after the other: old ones serve until new ones do.
  virtual Status update(LaunchSpec spec) = 0;
  virtual Status set_replicas(const std::string& uid, int32_t count) = 0;
  virtual Status stop_replica(const std::string& uid, const std::string& replica) = 0;  // and one less is wished
  virtual Status unload(const std::string& uid) = 0;  // now, as if idle; the next request loads it

  virtual std::vector<ModelView> models() const = 0;  // by time of launch
  virtual std::optional<ModelView> model(const std::string& uid) const = 0;
  virtual bool knows(const std::string& uid) const = 0;  // cheap: every request asks
  // A model by its uid, else an adapter by its name, of several with that name the one of the model that was launched
  // first, else an adapter as UID:NAME. As cheap.
  virtual std::optional<ServedName> resolve(const std::string& name) const {
    if (!knows(name)) return std::nullopt;
    return ServedName{.uid = name, .adapter = {}};
  }
  // Of one model (or all, empty), with id above `after`, oldest first. The last 1,000 of each are kept.
  virtual std::vector<FleetEvent> events(const std::string& uid, int64_t after) const = 0;
  // Of the model's replicas those that have an address.
  virtual std::vector<WorkerWay> ways(const std::string&) const { return {}; }
  // Adds the adapter to the model's launch, or replaces the one of its name; with an empty path it is taken out.
  // Replicas of the lives in `told` have been told of it and go on; others that run are replaced, as by update().
  virtual Status change_adapter(const std::string&, LaunchAdapter, std::vector<uint64_t>) {
    return make_error(ErrorCode::kUnsupported, "adapters of launched models cannot change here");
  }
  // The end of a replica's log, at most bytes_max.
  virtual Result<std::string> log_tail(const std::string& uid, const std::string& replica, size_t bytes_max) const = 0;

  // `done` is called once, from any thread and perhaps before this returns: with a lease, at the latest when
  // `patience` has passed. A model that is not loaded is loaded; the request waits for it.
  using LeaseResult = std::expected<std::unique_ptr<Lease>, RouteRefusal>;
  virtual void lease(RouteRequest request, std::chrono::milliseconds patience,
                     std::function<void(LeaseResult)> done) = 0;

  // Machines beside this one; null: there can be none.
  virtual FleetNodes* nodes() { return nullptr; }
  // For models of this machine, what they hold included.
  virtual int64_t memory_budget() const { return 0; }
};

}  // namespace quern
