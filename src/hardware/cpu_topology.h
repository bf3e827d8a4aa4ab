// Which processors this process may use, from the affinity mask, the cgroup v2 quota and sysfs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {

// Physical cores among the usable processors (hardware threads of one core count once), at most the quota, at least 1.
int32_t usable_cores();

// Processors' worth of time that a `cpu.max` line allows ("150000 100000" is 1.5); nullopt for "max" and for what is
// not such a line.
std::optional<double> parse_cpu_max(std::string_view line);

}  // namespace quern
