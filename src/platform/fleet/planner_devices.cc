#include "platform/fleet/planner_devices.h"

#include <algorithm>

namespace quern {
namespace {

MemoryPool pool_in(const MachineRoom& room, const std::string& name) {
  const auto it = room.find(name);
  return it == room.end() ? MemoryPool() : it->second;
}

bool takes_fraction(const PlanModel& model, const MemoryPool& pool) {
  return model.device_fraction > 0 && pool.total_bytes.has_value();
}

// That nobody has to name.
Pools devices_of_kind(const std::vector<PlanDevice>& devices, const std::string& kind) {
  Pools found;
  for (const PlanDevice& device : devices) {
    if (!device.must_be_named && device.id.substr(0, device.id.find(':')) == kind) found.push_back(device.id);
  }
  return found;
}

}  // namespace

std::string mib_text(int64_t bytes) {
  return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20);
}

MachineRoom room_of_machine(int64_t budget_bytes, const std::vector<PlanDevice>& devices) {
  MachineRoom room;
  room[kMainMemory] = {.budget_bytes = budget_bytes, .total_bytes = std::nullopt, .free_bytes = budget_bytes};
  for (const PlanDevice& device : devices) {
    room[device.id] = {.budget_bytes = device.budget_bytes,
                       .total_bytes = device.total_bytes,
                       .reserve_bytes = device.reserve_bytes,
                       .free_bytes = device.budget_bytes.value_or(0),
                       .is_made = device.is_settling};
  }
  return room;
}

int64_t need_of(const PlanModel& model, size_t num_pools) {
  const auto parts = static_cast<int64_t>(std::max<size_t>(1, num_pools));
  return (model.needs_bytes + parts - 1) / parts;
}

int64_t share_of(const PlanModel& model, const MemoryPool& pool, size_t num_pools) {
  if (!takes_fraction(model, pool)) return need_of(model, num_pools);
  return static_cast<int64_t>(model.device_fraction * static_cast<double>(*pool.total_bytes));
}

int64_t free_for(const PlanModel& model, const MemoryPool& pool) {
  return pool.free_bytes + (takes_fraction(model, pool) ? pool.reserve_bytes : 0);
}

Pools pools_of(const PlanModel& model, const PlanReplica& row) {
  if (!row.devices.empty()) return row.devices;
  return model.device.empty() ? Pools() : Pools{kMainMemory};
}

int64_t bytes_of(const PlanModel& model, const PlanReplica& row, const std::string& name, const MemoryPool& pool) {
  const Pools pools = pools_of(model, row);
  if (!row.is_live() || std::ranges::find(pools, name) == pools.end()) return 0;
  return row.devices.empty() ? std::max(model.needs_bytes, row.bytes) : share_of(model, pool, pools.size());
}

// Of a device not what is free of it now: others than models may hold a part for a while.
int64_t capacity_of(const MemoryPool& pool, int64_t unknown_bytes) {
  if (pool.total_bytes) return *pool.total_bytes - pool.reserve_bytes;
  return pool.budget_bytes.value_or(unknown_bytes);
}

bool can_ever_fit(const PlanModel& model, const Pools& pools, const MachineRoom& room) {
  const int64_t need = need_of(model, pools.size());
  return std::ranges::all_of(pools,
                             [&](const std::string& name) { return need <= capacity_of(pool_in(room, name), need); });
}

bool wants_device(const PlanModel& model, const PlanReplica& row) {
  return !row.wish.empty() || !model.kinds.empty();
}

std::vector<Pools> pools_for(const PlanModel& model, const PlanReplica& row, const std::vector<PlanDevice>& devices,
                             const MachineRoom& room) {
  if (!row.wish.empty()) return {row.wish};
  const auto freer = [&](const std::string& a, const std::string& b) {
    return pool_in(room, a).free_bytes > pool_in(room, b).free_bytes;
  };
  const auto wanted = static_cast<size_t>(std::max(1, model.num_devices));
  std::vector<Pools> found;
  bool any = false;
  for (const std::string& kind : model.kinds) {
    Pools group = devices_of_kind(devices, kind);
    any |= !group.empty();
    if (wanted == 1) {
      for (const std::string& id : group) found.push_back({id});
    } else if (group.size() >= wanted) {
      std::ranges::stable_sort(group, freer);
      group.resize(wanted);
      found.push_back(std::move(group));
    }
  }
  if (wanted > 1 && any) return found;
  std::ranges::stable_sort(found, [&](const Pools& a, const Pools& b) { return freer(a[0], b[0]); });
  const bool has_room =
      std::ranges::any_of(found, [&](const Pools& pools) { return can_ever_fit(model, pools, room); });
  if (!has_room) found.push_back(model.device.empty() ? Pools() : Pools{kMainMemory});
  return found;
}

int32_t num_devices_of_a_kind(const PlanModel& model, const std::vector<PlanDevice>& devices) {
  size_t most = 0;
  for (const std::string& kind : model.kinds) most = std::max(most, devices_of_kind(devices, kind).size());
  return static_cast<int32_t>(most);
}

}  // namespace quern
