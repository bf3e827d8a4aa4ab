#include "platform/fleet/node.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/status.h"
#include "engine/kv_sizing.h"
#include "platform/catalog/engines.h"
#include "platform/catalog/json_fields.h"
#include "platform/fleet/device_wish.h"

namespace quern {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 50;
constexpr size_t kDevicesMax = 64;
constexpr size_t kDevicesBytesMax = 128 * 1024;  // of their JSON
constexpr size_t kLabelsMax = 32;
constexpr size_t kNodeReplicasMax = 1024;
constexpr const char* kMachineVersion = "0.1.0";

bool is_word(std::string_view text, std::string_view more, size_t size_max) {
  const auto allowed = [&](unsigned char c) {
    return std::isalnum(c) != 0 || more.find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= size_max && std::ranges::all_of(text, allowed);
}

bool is_label(std::string_view name, std::string_view value) {
  return is_word(name, "_-./", 128) && value.size() <= 256 &&
         std::ranges::all_of(value, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

Result<std::map<std::string, std::string>> read_labels(const JsonFields& fields) {
  std::map<std::string, std::string> labels;
  if (!fields.has("labels")) return labels;
  QUERN_ASSIGN(const JsonFields own, fields.object("labels"));
  if (own.keys().size() > kLabelsMax) return fields.refuse("labels", fmt::format("more than {}", kLabelsMax));
  for (const std::string& name : own.keys()) {
    QUERN_ASSIGN(const std::string value, own.text(name.c_str(), 256));
    if (!is_label(name, value)) return own.refuse(name, "is no label");
    labels[name] = value;
  }
  return labels;
}

Result<NodeMachine> read_machine(const JsonFields& fields) {
  QUERN_ASSIGN(const JsonFields own, fields.object("machine"));
  NodeMachine machine;
  QUERN_ASSIGN(machine.version, own.text_or("version", "", 32));
  QUERN_ASSIGN(machine.memory_total, own.integer_or("memory_total", 0, 0, kBytesMax));
  QUERN_ASSIGN(machine.memory_free, own.integer_or("memory_free", 0, 0, kBytesMax));
  QUERN_ASSIGN(machine.memory_budget, own.integer_or("memory_budget", 0, -kBytesMax, kBytesMax));
  QUERN_ASSIGN(machine.cpu_load, own.number_or("cpu_load", 0, 0, 1e6));
  QUERN_ASSIGN(const int64_t processors, own.integer_or("cpu_count", 0, 0, 65536));
  machine.cpu_count = static_cast<int32_t>(processors);
  QUERN_ASSIGN(machine.engines, own.texts_or_none("engines", 16, 32));
  QUERN_ASSIGN(const auto devices, own.objects("devices", kDevicesMax));
  for (const JsonFields& device : devices) {
    QUERN_TRY(device.text("id", 64));
    QUERN_TRY(device.text("kind", 32));
    const auto shares = device.json().find("shares_system_memory");
    if (shares != device.json().end() && !shares->is_boolean()) {
      return device.refuse("shares_system_memory", "must be true or false");
    }
    machine.devices.push_back(device.json());
  }
  if (dump_json(machine.devices).size() > kDevicesBytesMax) {
    return own.refuse("devices", fmt::format("more than {} bytes", kDevicesBytesMax));
  }
  return machine;
}

Json machine_json(const NodeMachine& machine) {
  return {{"version", machine.version},         {"memory_total", machine.memory_total},
          {"memory_free", machine.memory_free}, {"memory_budget", machine.memory_budget},
          {"cpu_load", machine.cpu_load},       {"cpu_count", machine.cpu_count},
          {"devices", machine.devices},         {"engines", machine.engines}};
}

constexpr std::array kReplicaStates = {ReplicaState::kWaiting, ReplicaState::kPulling, ReplicaState::kLoading,
                                       ReplicaState::kReady,   ReplicaState::kLost,    ReplicaState::kDraining,
                                       ReplicaState::kBackoff, ReplicaState::kStopped};

Result<NodeReplica> read_node_replica(const JsonFields& fields) {
  NodeReplica replica;
  QUERN_ASSIGN(replica.name, fields.text("name", 256));
  QUERN_ASSIGN(const std::string state, fields.text("state", 32));
  const auto found = std::ranges::find_if(kReplicaStates, [&](auto one) { return state == replica_state_name(one); });
  if (found == kReplicaStates.end()) return fields.refuse("state", "is unknown");
  replica.state = *found;
  QUERN_ASSIGN(const int64_t failed, fields.integer_or("failed", 0, 0, 1));
  replica.failed = failed != 0;
  QUERN_ASSIGN(replica.pid, fields.integer_or("pid", 0, 0, INT32_MAX));
  QUERN_ASSIGN(replica.memory_bytes, fields.integer_or("memory", 0, 0, kBytesMax));
  QUERN_ASSIGN(const int64_t restarts, fields.integer_or("restarts", 0, 0, INT32_MAX));
  replica.restarts = static_cast<int32_t>(restarts);
  QUERN_ASSIGN(replica.load_seconds, fields.number_or("load_seconds", 0, 0, 1e9));
  QUERN_ASSIGN(replica.progress, fields.number_or("progress", 0, 0, 1));
  QUERN_ASSIGN(replica.message, fields.text_or("message", "", 2048));
  return replica;
}

// The host of "http://10.0.0.2:9998", without brackets.
std::string_view host_of(std::string_view address) {
  address = address_without_pin(address);
  if (const size_t scheme = address.find("://"); scheme != std::string_view::npos) address.remove_prefix(scheme + 3);
  if (address.starts_with('[')) return address.substr(1, address.find(']') - 1);
  return address.substr(0, address.find(':'));
}

bool may_have(const NodeMachine& machine, const std::string& id) {
  return !knows_devices(machine) || std::ranges::any_of(machine.devices, [&](const Json& device) {
    const auto name = device.find("id");
    return name != device.end() && name->is_string() && name->get_ref<const std::string&>() == id;
  });
}

}  // namespace

const char* node_state_name(NodeState state) {
  switch (state) {
    case NodeState::kReady: return "ready";
    case NodeState::kLost: return "lost";
    case NodeState::kDraining: return "draining";
  }
  return "?";
}

NodeMachine measure_machine(int64_t memory_budget) {
  NodeMachine machine;
  machine.version = kMachineVersion;
  machine.memory_total = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  machine.memory_free = std::min(available_memory_bytes(), machine.memory_total);
  machine.memory_budget = memory_budget;
  if (::getloadavg(&machine.cpu_load, 1) != 1) machine.cpu_load = 0;
  machine.cpu_count = static_cast<int32_t>(std::thread::hardware_concurrency());
  machine.engines = {"quern"};
  for (const char* engine : {"vllm", "sglang", "llama.cpp"}) {
    if (find_engine_program(engine)) machine.engines.emplace_back(engine);
  }
  return machine;
}

Result<NodeJoin> node_join_from_json(const Json& body) {
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(body, ""));
  NodeJoin join;
  QUERN_ASSIGN(join.name, fields.text("name", 64));
  if (!is_node_name(join.name)) return fields.refuse("name", "must be of a-z 0-9 . - and not 'local'");
  QUERN_ASSIGN(join.address, fields.text("address", 512));
  const bool http = join.address.starts_with("http://") || join.address.starts_with("https://");
  if (!http || host_of(join.address).empty()) return fields.refuse("address", "is no http or https address");
  if (!pin_of_address(join.address).empty() && !join.address.starts_with("https://")) {
    return fields.refuse("address", "only https pins a key");
  }
  QUERN_ASSIGN(join.key, fields.text("key", 128));
  if (join.key.size() < 32 || !is_word(join.key, "", 128)) return fields.refuse("key", "must be 32 to 128 letters");
  QUERN_ASSIGN(join.labels, read_labels(fields));
  QUERN_ASSIGN(join.machine, read_machine(fields));
  return join;
}

Result<NodeReport> node_report_from_json(const Json& body) {
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(body, ""));
  NodeReport report;
  QUERN_ASSIGN(report.machine, read_machine(fields));
  QUERN_ASSIGN(const auto replicas, fields.objects("replicas", kNodeReplicasMax));
  for (const JsonFields& one : replicas) {
    QUERN_ASSIGN(NodeReplica replica, read_node_replica(one));
    report.replicas.push_back(std::move(replica));
  }
  return report;
}

Result<std::vector<NodeWish>> node_wishes_from_json(const Json& body) {
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(body, ""));
  if (!fields.has("replicas")) return fields.refuse("replicas", "is missing");
  QUERN_ASSIGN(const auto replicas, fields.objects("replicas", kNodeReplicasMax));
  std::vector<NodeWish> wishes;
  for (const JsonFields& one : replicas) {
    NodeWish wish;
    QUERN_ASSIGN(wish.name, one.text("name", 256));
    if (one.has("spec")) {
      QUERN_ASSIGN(wish.spec, stored_launch_spec(dump_json(one.json().at("spec"))));
    }
    wishes.push_back(std::move(wish));
  }
  return wishes;
}

Json to_json(const NodeJoin& join) {
  Json labels = Json::object();
  for (const auto& [name, value] : join.labels) labels[name] = value;
  return {{"name", join.name},
          {"address", join.address},
          {"key", join.key},
          {"labels", std::move(labels)},
          {"machine", machine_json(join.machine)}};
}

Json to_json(const NodeReport& report) {
  Json replicas = Json::array();
  for (const NodeReplica& one : report.replicas) {
    std::string message = one.message.substr(0, 1024);
    std::ranges::replace_if(message, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    replicas.push_back({{"name", one.name},
                        {"state", replica_state_name(one.state)},
                        {"failed", one.failed ? 1 : 0},
                        {"pid", one.pid},
                        {"memory", one.memory_bytes},
                        {"restarts", one.restarts},
                        {"load_seconds", one.load_seconds},
                        {"progress", one.progress},
                        {"message", std::move(message)}});
  }
  return {{"machine", machine_json(report.machine)}, {"replicas", std::move(replicas)}};
}

Json to_json(const std::vector<NodeWish>& wishes) {
  Json replicas = Json::array();
  for (const NodeWish& wish : wishes) {
    replicas.push_back({{"name", wish.name}, {"spec", wish.spec ? wish.spec->to_json() : Json(nullptr)}});
  }
  return {{"replicas", std::move(replicas)}};
}

bool is_node_name(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  return !name.empty() && name.size() <= 64 && name != kThisNode && std::ranges::all_of(name, allowed);
}

Result<std::pair<std::string, std::string>> parse_node_label(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  if (equals == std::string_view::npos || !is_label(name, value)) {
    return invalid_argument(fmt::format("label: '{:.64}' is no name=value", text));
  }
  if (name == "name" || name == "address") return invalid_argument(fmt::format("label: {} is set by itself", name));
  return std::pair(std::string(name), std::string(value));
}

std::string_view address_without_pin(std::string_view address) {
  return address.substr(0, address.find('#'));
}

std::string_view pin_of_address(std::string_view address) {
  const size_t mark = address.find('#');
  return mark == std::string_view::npos ? std::string_view() : address.substr(mark + 1);
}

bool knows_devices(const NodeMachine& machine) {
  return !machine.devices.empty();
}

bool node_suits(const NodeJoin& node, const LaunchSpec& spec) {
  if (spec.engine == "openai" || spec.uid.size() > kNodeUidMax) return false;
  if (std::ranges::find(node.machine.engines, spec.engine) == node.machine.engines.end()) return false;
  for (const auto& [name, value] : spec.node_labels) {
    const auto own = node.labels.find(name);
    const bool carries = name == "name"      ? value == node.name
                         : name == "address" ? value == node.name || value == host_of(node.address)
                                             : own != node.labels.end() && own->second == value;
    if (!carries) return false;
  }
  return std::ranges::all_of(device_ids(spec.device),
                             [&](const std::string& id) { return may_have(node.machine, id); });
}

std::string node_replica_name(const std::string& replica, const std::string& run) {
  return replica + "@" + run;
}

std::string uid_of_node_replica(const std::string& name) {
  const std::string replica = name.substr(0, name.rfind('@'));
  return replica.substr(0, replica.rfind('-'));
}

}  // namespace quern
