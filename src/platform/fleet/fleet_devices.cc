// Memory of devices: what was measured, what models hold of it, and what can never fit.
#include <algorithm>

#include "base/status.h"
#include "platform/fleet/fleet_owner.h"

namespace quern {
namespace {

constexpr std::chrono::seconds kFirstLookMax{10};

bool wants_device(const LaunchSpec& spec) {
  return !device_ids(spec.device).empty() || !free_device_kinds(spec).empty();
}

int64_t budget_of(const DeviceMemory& device, double reserve, int64_t held) {
  const int64_t total = *device.total_bytes;
  return std::min(*device.free_bytes + held, total) - static_cast<int64_t>(reserve * static_cast<double>(total));
}

}  // namespace

void FleetOwner::wait_for_devices(const LaunchSpec& spec) const {
  if (wants_device(spec)) watch_->wait_for_first(kFirstLookMax);
}

void FleetOwner::set_devices(std::vector<DeviceMemory> found, int64_t begun_ms) {
  devices_.found = std::move(found);
  devices_ms_ = begun_ms;
  knows_devices_ = true;
  const bool matters = std::ranges::any_of(models_, [](const auto& model) { return wants_device(model->spec); });
  watch_->look_often(matters);
}

void FleetOwner::free_devices(FleetReplica& replica) {
  if (replica.devices.empty()) return;
  FleetNode* node = replica.node.empty() ? nullptr : find_node(replica.node);
  if (replica.node.empty() || node != nullptr) {
    FleetDevices& devices = node == nullptr ? devices_ : node->devices;
    for (const std::string& id : replica.devices) devices.freed_ms[id] = steady_ms();
  }
  if (replica.node.empty()) watch_->look_now();
  replica.devices.clear();
}

// What is free and what replicas held when it was measured, less the reserve.
std::vector<PlanDevice> FleetOwner::plan_devices(const std::string& node, const FleetDevices& devices,
                                                 int64_t measured_ms) const {
  std::vector<PlanDevice> plan;
  for (const DeviceMemory& device : devices.found) {
    PlanDevice& one = plan.emplace_back();
    one.id = device.id;
    const auto freed = devices.freed_ms.find(device.id);
    one.is_settling = freed != devices.freed_ms.end() && freed->second >= measured_ms;
    if (!device.total_bytes || !device.free_bytes) continue;
    int64_t held = 0;
    for (const auto& model : models_) {
      for (const FleetReplica& replica : model->replicas) {
        const bool is_there =
            replica.node == node && std::ranges::find(replica.devices, device.id) != replica.devices.end();
        const bool had = replica.plan.state == ReplicaState::kDraining ||
                         (replica.plan.state == ReplicaState::kReady && replica.plan.since_ms <= measured_ms);
        if (is_there && had) held += model->facts.memory_estimate / std::ssize(replica.devices);
      }
    }
    one.budget_bytes = budget_of(device, options_.memory_reserve, held);
  }
  return plan;
}

bool FleetOwner::has_wished_devices(const LaunchSpec& spec) const {
  return !knows_devices_ || std::ranges::all_of(device_ids(spec.device), [&](const std::string& id) {
    return may_have_device(devices_.found, id);
  });
}

// Of one machine, for one replica: none when that is not known. `where` gets the device with the most.
std::optional<int64_t> FleetOwner::room_max(const LaunchSpec& spec, const std::vector<DeviceMemory>& devices,
                                            int64_t budget, std::string& where) const {
  const std::vector<std::string> wish = wished_devices(spec, 0);
  const std::vector<std::string> kinds = free_device_kinds(spec);
  std::vector<const DeviceMemory*> candidates;
  for (const DeviceMemory& device : devices) {
    const bool wished = std::ranges::find(wish, device.id) != wish.end();
    const std::string kind = device.id.substr(0, device.id.find(':'));
    if (wished || std::ranges::find(kinds, kind) != kinds.end()) candidates.push_back(&device);
  }
  if (candidates.empty()) return wish.empty() ? std::optional(budget) : std::nullopt;
  int64_t least = INT64_MAX, most = -1;
  for (const DeviceMemory* device : candidates) {
    if (!device->total_bytes) return std::nullopt;
    const int64_t room = *device->total_bytes -
                         static_cast<int64_t>(options_.memory_reserve * static_cast<double>(*device->total_bytes));
    least = std::min(least, room);
    if (room <= most) continue;
    most = room;
    where = device->id;
  }
  if (wish.empty()) return most * devices_of_one_replica(spec);
  where = device_text(wish);
  return least * std::ssize(wish);
}

Status FleetOwner::check_room(const LaunchSpec& spec, const ModelFacts& facts) const {
  int64_t most = -1;
  std::string where;
  const auto has_room = [&](const std::vector<DeviceMemory>& devices, int64_t budget) {
    std::string here;
    const auto room = room_max(spec, devices, budget, here);
    if (!room || facts.memory_estimate <= *room) return true;
    if (*room > most) where = here;
    most = std::max(most, *room);
    return false;
  };
  const bool here = check_worker_here(spec).has_value() && has_wished_devices(spec);
  if (here && ((wants_device(spec) && !knows_devices_) || has_room(devices_.found, budget_bytes_))) return {};
  for (const auto& node : nodes_) {
    if (!node_suits(node->join, spec)) continue;
    if (has_room(node->devices.found, node->join.machine.memory_budget)) return {};
  }
  return make_error(
      ErrorCode::kResourceExhausted,
      fmt::format("{}: needs {} MiB of memory{}{}, {} MiB are there for models", spec.uid, facts.memory_estimate >> 20,
                  where.empty() ? "" : " on ", where, std::max<int64_t>(0, most) >> 20));
}

std::string FleetOwner::device_of(const FleetModel& model, const FleetReplica& replica) const {
  return replica.devices.empty() ? model.spec.device : device_text(replica.devices);
}

}  // namespace quern
