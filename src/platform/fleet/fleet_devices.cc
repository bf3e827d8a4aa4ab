// Memory of devices: what was measured, what models hold of it, and what can never fit.
#include <algorithm>

#include "base/status.h"
#include "platform/fleet/fleet_owner.h"
#include "platform/fleet/planner_devices.h"

namespace quern {
namespace {

bool wants_device(const LaunchSpec& spec) {
  return !device_ids(spec.device).empty() || !free_device_kinds(spec).empty();
}

int64_t reserve_of(const DeviceMemory& device, double part) {
  return static_cast<int64_t>(part * static_cast<double>(*device.total_bytes));
}

bool is_of_kinds(const DeviceMemory& device, const std::vector<std::string>& kinds) {
  return std::ranges::find(kinds, device.id.substr(0, device.id.find(':'))) != kinds.end();
}

}  // namespace

int32_t replica_number(const std::string& replica) {
  return static_cast<int32_t>(std::strtol(replica.c_str() + replica.rfind('-') + 1, nullptr, 10));
}

void FleetOwner::wait_for_devices(const LaunchSpec& spec) const {
  if (wants_device(spec)) watch_->wait_for_first(options_.first_look_max);
}

void FleetOwner::set_devices(std::vector<DeviceMemory> found, int64_t begun_ms) {
  devices_.found = std::move(found);
  devices_ms_ = begun_ms;
  knows_devices_ = true;
  const bool matters = std::ranges::any_of(models_, [](const auto& model) { return wants_device(model->spec); });
  watch_->look_often(matters);
}

void FleetOwner::look_for(const LaunchSpec& spec) {
  if (!wants_device(spec)) return;
  watch_->look_often(true);
  watch_->look_now();
}

// Rows of files from before devices had budgets name none.
std::vector<std::string> FleetOwner::adopted_devices(const StoredWorkerRow& row, const FleetModel& model) {
  if (!row.devices.empty() || row.digest != model.digest) return device_ids(row.devices);
  return wished_devices(model.spec, replica_number(row.replica));
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
    one.must_be_named = device.must_be_named;
    one.is_settling = freed != devices.freed_ms.end() && freed->second >= measured_ms;
    if (!device.total_bytes || !device.free_bytes) continue;
    const int64_t total = *device.total_bytes;
    int64_t held = 0;
    for (const auto& model : models_) {
      for (const FleetReplica& replica : model->replicas) {
        const bool is_there =
            replica.node == node && std::ranges::find(replica.devices, device.id) != replica.devices.end();
        if (!is_there) continue;
        const bool had = replica.plan.state == ReplicaState::kDraining ||
                         (replica.plan.state == ReplicaState::kReady && replica.plan.since_ms <= measured_ms);
        // The look may have begun while it loaded, and seen a part of it.
        if (replica.plan.state == ReplicaState::kReady && !had) one.is_settling = true;
        const double fraction = device_fraction(model->spec);
        if (had && fraction > 0) held += static_cast<int64_t>(fraction * static_cast<double>(total));
        if (had && fraction == 0) held += model->facts.memory_estimate / std::ssize(replica.devices);
      }
    }
    one.total_bytes = total;
    one.reserve_bytes = reserve_of(device, options_.memory_reserve);
    one.budget_bytes = std::min(*device.free_bytes + held, total) - one.reserve_bytes;
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
    if (wished || (!device.must_be_named && is_of_kinds(device, kinds))) candidates.push_back(&device);
  }
  if (candidates.empty()) return wish.empty() ? std::optional(budget) : std::nullopt;
  int64_t least = INT64_MAX, most = -1;
  for (const DeviceMemory* device : candidates) {
    if (!device->total_bytes) return std::nullopt;
    const int64_t room = *device->total_bytes - reserve_of(*device, options_.memory_reserve);
    least = std::min(least, room);
    if (room <= most) continue;
    most = room;
    where = device->id;
  }
  if (wish.empty()) {
    const int32_t number = devices_of_one_replica(spec);
    if (number > 1 || most >= budget) return most * number;
    where.clear();  // main memory holds what no device can
    return budget;
  }
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
    if (wants_device(spec) && !knows_devices(node->join.machine)) return {};
    if (has_room(node->devices.found, node->join.machine.memory_budget)) return {};
  }
  return make_error(
      ErrorCode::kResourceExhausted,
      fmt::format("{}: needs {} of memory{}{}, {} are there for models", spec.uid, mib_text(facts.memory_estimate),
                  where.empty() ? "" : " on ", where, mib_text(std::max<int64_t>(0, most))));
}

std::string FleetOwner::device_of(const FleetModel& model, const FleetReplica& replica) const {
  if (!replica.devices.empty()) return device_text(replica.devices);
  // In main memory although there are devices: it must not take one by itself.
  const auto node = std::ranges::find_if(nodes_, [&](const auto& one) { return one->join.name == replica.node; });
  const FleetDevices& devices = node == nodes_.end() ? devices_ : (*node)->devices;
  const std::vector<std::string> kinds = free_device_kinds(model.spec);
  const bool any = std::ranges::any_of(devices.found, [&](const auto& one) { return is_of_kinds(one, kinds); });
  return any ? "cpu" : model.spec.device;
}

}  // namespace quern
