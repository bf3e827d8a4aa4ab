// What this machine has to compute with, taken a short while ago at most. Blocks while tools answer: not for threads
// that serve connections. Thread-safe; one process has one.
#pragma once

#include <chrono>
#include <memory>

#include "hardware/inventory/inventory.h"

namespace quern::devices {

std::shared_ptr<const Inventory> recent_inventory(std::chrono::seconds age_max = std::chrono::seconds(10));

}  // namespace quern::devices
