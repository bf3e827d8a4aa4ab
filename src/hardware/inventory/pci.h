// Accelerators that the kernel lists, whether or not a tool of their vendor is here.
#pragma once

#include <filesystem>
#include <vector>

#include "hardware/inventory/host.h"
#include "hardware/inventory/tool_parsers.h"

namespace quern {

// Those below sys/bus/pci/devices of vendors who make accelerators, by address. Display adapters of servers' management
// chips and virtual ones are none. With memory and load where the driver tells them (amdgpu, i915, xe), and NVIDIA's
// name and driver from proc/driver/nvidia. Indices count each kind by address.
Devices read_pci_devices(const HostRoots& roots);

}  // namespace quern
