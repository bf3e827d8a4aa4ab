// What vendors' tools print, as devices. Pure functions over text: whatever it holds, they return devices or an error,
// kInvalidFile "TOOL: …". An output that says "no devices" is an empty list. Samples, and where each format is
// documented: tests/hardware/README.md.
#pragma once

#include <string_view>
#include <vector>

#include "hardware/inventory/device.h"
#include "quern/status.h"

namespace quern {

using Devices = std::vector<DeviceInfo>;

// `nvidia-smi --query-gpu=index,uuid,…,name --format=csv` and Iluvatar's `ixsmi` of the same form: columns by their
// headings; the last may hold commas.
Result<Devices> parse_query_csv(std::string_view text, DeviceKind kind, std::string_view tool);

// `amd-smi static --json` and `amd-smi metric --json`.
Result<Devices> parse_amd_smi(std::string_view static_json, std::string_view metric_json);
// `rocm-smi --json` with product name, memory, use and bus; Hygon's `hy-smi` speaks the same, with DCU or HCU in the
// names of its fields: those are of kind dcu, whoever was asked.
Result<Devices> parse_rocm_smi(std::string_view json, DeviceKind kind, std::string_view tool);

// `xpu-smi discovery -j`; then of one device `discovery -d N -j` and `stats -d N -j`.
Result<Devices> parse_xpu_discovery(std::string_view json);
Status add_xpu_details(std::string_view json, DeviceInfo& device);
Status add_xpu_stats(std::string_view json, DeviceInfo& device);

// `system_profiler SPDisplaysDataType -json`, and what `sysctl hw.memsize` and `vm_stat` say of the memory they share.
Result<Devices> parse_system_profiler(std::string_view json);
void add_apple_memory(std::string_view sysctl, std::string_view vm_stat, Devices& devices);

Result<Devices> parse_npu_smi(std::string_view text);       // `npu-smi info`
Result<Devices> parse_cnmon(std::string_view text);         // `cnmon`
Result<Devices> parse_mthreads_gmi(std::string_view text);  // `mthreads-gmi`
Result<Devices> parse_mx_smi(std::string_view text);        // `mx-smi`

}  // namespace quern
