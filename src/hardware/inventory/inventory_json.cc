// The inventory as the command and the route print it.
#include "hardware/inventory/inventory.h"

namespace quern {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json cpu_json(const CpuInfo& cpu) {
  Json caches = Json::array(), numa = Json::array();
  for (const CpuCache& cache : cpu.caches) {
    caches.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  for (const NumaNode& node : cpu.numa) {
    numa.push_back({{"id", node.id},
                    {"cpus", node.cpus},
                    {"memory_total", node.memory_total_bytes},
                    {"memory_free", node.memory_free_bytes}});
  }
  return {{"architecture", cpu.architecture},
          {"name", or_null(cpu.name)},
          {"instruction_sets", cpu.instruction_sets},
          {"sockets", cpu.sockets},
          {"cores", cpu.cores},
          {"threads", cpu.threads},
          {"usable_threads", cpu.usable_threads},
          {"quota", or_null(cpu.quota)},
          {"load_average", cpu.load_average},
          {"caches", std::move(caches)},
          {"numa", std::move(numa)}};
}

Json memory_json(const MemoryInfo& memory) {
  return {{"total", memory.total_bytes},
          {"available", memory.available_bytes},
          {"swap_total", memory.swap_total_bytes},
          {"swap_free", memory.swap_free_bytes},
          {"limit", or_null(memory.limit_bytes)},
          {"limit_used", or_null(memory.limit_used_bytes)},
          {"usable_total", memory.usable_total_bytes()},
          {"usable_available", memory.usable_available_bytes()}};
}

Json probe_json(const ProbeReport& probe) {
  return {{"kind", device_kind_name(probe.kind)},
          {"tool", probe.tool},
          {"result", probe_end_name(probe.end)},
          {"message", or_null(probe.message)},
          {"devices", probe.num_devices}};
}

}  // namespace

Json device_json(const DeviceInfo& device) {
  return {{"id", device.id()},
          {"kind", device_kind_name(device.kind)},
          {"index", device.index},
          {"vendor", or_null(device.vendor)},
          {"name", or_null(device.name)},
          {"memory_total", or_null(device.memory_total_bytes)},
          {"memory_free", or_null(device.memory_free_bytes)},
          {"shares_system_memory", device.shares_system_memory},
          {"load", or_null(device.load)},
          {"driver", or_null(device.driver)},
          {"pci", or_null(device.pci)},
          {"uuid", or_null(device.uuid)},
          {"numa_node", or_null(device.numa_node)},
          {"state", device_state_name(device.state)},
          {"message", or_null(device.message)},
          {"source", device.source}};
}

Json inventory_json(const Inventory& inventory) {
  Json devices = Json::array({device_json(inventory.cpu_device())}), probes = Json::array();
  for (const DeviceInfo& device : inventory.devices) devices.push_back(device_json(device));
  for (const ProbeReport& probe : inventory.probes) probes.push_back(probe_json(probe));
  return {{"object", "list"},
          {"data", std::move(devices)},
          {"cpu", cpu_json(inventory.cpu)},
          {"memory", memory_json(inventory.memory)},
          {"probes", std::move(probes)}};
}

}  // namespace quern
