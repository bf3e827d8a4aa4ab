// Which devices a launch's replicas take memory of: what its words mean, and what machines say they have. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "hardware/inventory/inventory.h"
#include "platform/fleet/launch_spec.h"

namespace quern {

// "cuda:0" and "cuda:1" of "cuda:0,1"; none of "auto", "cpu" and whatever else names no device by its number.
std::vector<std::string> device_ids(std::string_view device);
std::string device_text(const std::vector<std::string>& ids);  // "cuda:0,1", of one kind

// Of the devices that a launch names, those of replica `number`: two replicas on cuda:0,1 have one each.
std::vector<std::string> wished_devices(const LaunchSpec& spec, int32_t number);
// Kinds of devices that its engine takes by itself where there are any, best first: of launches that leave the device
// to the platform. Empty: it computes on the processor.
std::vector<std::string> free_device_kinds(const LaunchSpec& spec);
int32_t devices_of_one_replica(const LaunchSpec& spec);  // that the platform chooses
// Of a device's total that its engine takes whatever the model needs (gpu_memory_utilization); 0: what it needs.
double device_fraction(const LaunchSpec& spec);

// A device with memory of its own.
struct DeviceMemory {
  std::string id;
  std::optional<int64_t> total_bytes, free_bytes;
  bool must_be_named = false;  // nobody gets it who leaves the device to the platform
};
// Is in a list as CUDA_VISIBLE_DEVICES is: by number or UUID.
bool is_listed(const DeviceInfo& device, std::string_view list);
// Only the kernel knows it, or this process was not given it: by its kind's variable in our environment.
bool must_be_named(const DeviceInfo& device);
// Those that can be used.
std::vector<DeviceMemory> device_memories(const Inventory& inventory);
std::vector<DeviceMemory> device_memories(const Json& devices);  // as /v1/devices lists them, and "must_be_named"
// Is the device there, or at least none of its kind known? Some machines hide their devices from all tools.
bool may_have_device(const std::vector<DeviceMemory>& devices, std::string_view id);

// The variable that shows a program these devices alone, and its value; empty names: there is none.
std::pair<std::string, std::string> visibility_of(const std::vector<std::string>& ids);

}  // namespace quern
