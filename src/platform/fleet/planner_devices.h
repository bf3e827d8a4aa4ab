// Memory as the planner counts it: the pools of one machine, and which of them a replica takes. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platform/fleet/fleet_planner.h"

namespace quern {

std::string mib_text(int64_t bytes);  // "28 MiB", rounded up

inline constexpr const char* kMainMemory = "cpu";
using Pools = std::vector<std::string>;  // names, of one machine

struct MemoryPool {
  std::optional<int64_t> budget_bytes;  // none: nothing is counted
  std::optional<int64_t> total_bytes;   // of a device
  int64_t reserve_bytes = 0;            // of it, that stays free
  int64_t free_bytes = 0, leaving_bytes = 0;
  int32_t loads = 0;
  bool is_made = false;  // what is being freed has its taker
};
using MachineRoom = std::map<std::string, MemoryPool>;  // by name

MachineRoom room_of_machine(int64_t budget_bytes, const std::vector<PlanDevice>& devices);

// What each of so many pools has to hold: its part of the need, or what the engine takes of a device of known total.
int64_t share_of(const PlanModel& model, const MemoryPool& pool, size_t num_pools);
// What of the pool is free to the model: an engine that takes a part of the total leaves the reserve itself.
int64_t free_for(const PlanModel& model, const MemoryPool& pool);
Pools pools_of(const PlanModel& model, const PlanReplica& row);
// What the row holds of the pool of its machine.
int64_t bytes_of(const PlanModel& model, const PlanReplica& row, const std::string& name, const MemoryPool& pool);

int64_t need_of(const PlanModel& model, size_t num_pools);  // the estimate's part
int64_t capacity_of(const MemoryPool& pool, int64_t unknown_bytes);
bool can_ever_fit(const PlanModel& model, const Pools& pools, const MachineRoom& room);

bool wants_device(const PlanModel& model, const PlanReplica& row);
// What the row could hold on a machine whose devices are known, the best first; none: too few devices of one kind.
std::vector<Pools> pools_for(const PlanModel& model, const PlanReplica& row, const std::vector<PlanDevice>& devices,
                             const MachineRoom& room);
int32_t num_devices_of_a_kind(const PlanModel& model, const std::vector<PlanDevice>& devices);  // of the most frequent

}  // namespace quern
