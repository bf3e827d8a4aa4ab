// How large the packed form of a weight is.
#pragma once

#include <cstddef>

#include "kernels/device.h"

namespace quern {

// Bytes of panels that CpuWeight::pack() takes; 0 for a type without a packed form on this machine.
size_t packed_bytes(const Weight& weight);

// Bytes of all its rows, as CpuWeight::round_in_place() holds them.
size_t rounded_bytes(const Weight& weight);

}  // namespace quern
