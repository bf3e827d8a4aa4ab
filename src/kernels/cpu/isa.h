// The instruction set that the CPU kernels run on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern::cpu {

// Makes `name` the instruction set of every CPU kernel of this process, and returns its name; empty: the best that this
// machine and this build have. Not while an operation runs: highway dispatches by one process-wide choice.
// Errors: kInvalidArgument (no such name), kUnsupported (absent from this machine or build).
Result<std::string> select_isa(std::string_view name);

// What select_isa accepts here, best first.
std::vector<std::string> available_isas();

}  // namespace quern::cpu
