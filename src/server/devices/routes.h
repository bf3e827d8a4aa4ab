// GET /v1/devices: what this machine can compute on, as `quern devices --json` prints it.
#pragma once

#include <chrono>

#include "hardware/inventory/inventory.h"
#include "server/route.h"

namespace quern::devices {

struct DeviceRoutesOptions {
  InventoryOptions inventory;
  std::chrono::milliseconds kept_for{3000};  // asking some tools takes a second and wakes their devices
};

// The inventory is taken by a thread of its own, one at a time; requests that come meanwhile wait for it.
Routes routes(DeviceRoutesOptions options = {});

}  // namespace quern::devices
