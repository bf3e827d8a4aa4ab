// Where a model can run: rules by kind of device, pure functions of an inventory.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hardware/inventory/device_name.h"
#include "hardware/inventory/inventory.h"

namespace quern {

// The kinds an engine computes on, best first, by its own documentation: "quern", "vllm", "sglang", "llama.cpp". Empty
// for an engine that is not known, and for "openai", which computes elsewhere.
std::vector<DeviceKind> engine_device_kinds(std::string_view engine);

struct DeviceFit {
  DeviceInfo device;
  std::string reason;  // why the engine cannot use it, one line; empty: it can
};
// Every device of the inventory, the CPU first.
std::vector<DeviceFit> fit_devices(const Inventory& inventory, std::string_view engine);

struct PlacementRequest {
  std::string_view engine;
  DeviceName device;
  int64_t bytes_needed = 0;  // of the device's memory; 0: not known
};

// One device. Of those that the engine can use and the name allows: the one with the most free memory of the best kind
// that has room; a device whose free memory is not known counts as having room, after those where it is known. "auto"
// and "gpu" pass over kinds without a device; "auto" also over devices that only the kernel knows, and it ends at the
// CPU where the engine computes there. Errors, with the name: kUnsupported (the engine does not compute there),
// kNotFound (no such device here, with those that are), kUnavailable (there, but without driver or unhealthy),
// kResourceExhausted (too little free memory, with the numbers).
Result<DeviceInfo> place(const Inventory& inventory, const PlacementRequest& request);

// The variable of the environment that shows a program this device alone, and its value: {"CUDA_VISIBLE_DEVICES",
// "GPU-…"}. Empty names where there is none (CPU, Metal).
std::pair<std::string, std::string> visibility_of(const DeviceInfo& device);

}  // namespace quern
