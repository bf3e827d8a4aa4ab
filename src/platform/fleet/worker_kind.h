// How each engine is run as a worker: one table entry each. A worker is whatever speaks OpenAI's API on a local
// address; what differs between engines is its command line, its environment and the question that tells whether it is
// well.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/fleet/launch_spec.h"
#include "platform/fleet/router.h"
#include "quern/status.h"

namespace quern {

enum class WorkerAddress : uint8_t {
  kUnixSocket,  // below a folder that only this user can enter
  kLoopback,    // a free port of 127.0.0.1, with a random key
  kUrl,         // no process: the address is the user's
};

struct WorkerKind {
  std::string_view engine;
  WorkerAddress address = WorkerAddress::kLoopback;
  std::string_view health_path;           // 200: it serves; another answer: alive, still loading
  std::vector<std::string_view> formats;  // that it reads; empty: any
  std::vector<std::string_view> types;    // that it serves, as LaunchSpec::model_type
  bool reserves_memory = true;            // of this machine, as estimated
};

// nullptr: no such engine.
const WorkerKind* find_worker_kind(std::string_view engine);

// What a worker needs to know of its model and of its place.
struct WorkerPlace {
  std::string program;           // the engine's
  std::string model;             // path, or what the engine takes as a model
  std::string served_name;       // what the worker calls it; empty: the uid
  std::string task;              // of `quern serve --task`; empty: by the files
  std::string device = "auto";   // as LaunchSpec has it, this replica's share
  std::filesystem::path socket;  // kUnixSocket
  uint16_t port = 0;             // kLoopback
  std::string api_key;           // kLoopback
  std::string mark;              // value of QUERN_FLEET_REPLICA, by which its processes are known again
};

struct WorkerCommand {
  std::vector<std::string> argv;          // argv[0] is the program; empty: no process
  std::vector<std::string> environment;   // "NAME=value", all of it
  std::string address;                    // as in ReplicaView
  std::string base_path, api_key, model;  // as in Lease
  std::string health_path;
};

inline constexpr const char* kReplicaVariable = "QUERN_FLEET_REPLICA";

// What can be known of a launch before anything starts, wherever it will run: kInvalidArgument and kUnsupported name
// the field.
Status check_worker_spec(const LaunchSpec& spec);
// May this machine run it? kUnsupported when it has not the engine's program, the device or the labels.
Status check_worker_here(const LaunchSpec& spec);

// Of a spec that check_worker_spec() has passed. Values are elements of argv, never words of a shell.
WorkerCommand worker_command(const LaunchSpec& spec, const WorkerPlace& place);

// How a worker that calls its model `served_name` is asked for the adapters it has, and under no name for the model
// without any, where that must be said; null: it has none.
std::shared_ptr<const AdapterCalls> adapter_calls(std::string_view engine, const std::string& served_name,
                                                  const std::vector<LaunchAdapter>& adapters);

// The same of a replica that another machine's server calls `model`.
std::shared_ptr<const AdapterCalls> adapter_calls_of_node(const std::string& model,
                                                          const std::vector<LaunchAdapter>& adapters);

// Options of `quern serve` that a launch may set, _ for -.
std::span<const std::string_view> quern_engine_options();

}  // namespace quern
