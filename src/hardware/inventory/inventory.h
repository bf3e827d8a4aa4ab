// Everything in this machine that can compute: processors, memory, and accelerators of every kind by what their
// vendors' tools and the kernel say. A kind that is missing is an answer; a tool that fails, hangs or cannot be
// understood is named, and what the kernel knows of its devices stays.
//
// Nothing here is linked against a vendor's library: the same binary runs where none of them is.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "hardware/inventory/device.h"
#include "hardware/inventory/host.h"
#include "hardware/inventory/tool_run.h"

namespace quern {

enum class ProbeEnd : uint8_t {
  kOk,          // the tool told of its devices
  kNoTool,      // it is not installed
  kNoDevice,    // it says there is none
  kFailed,      // it ended with an error
  kTimeout,     // it gave no answer in time
  kUnreadable,  // its answer is not understood
};
const char* probe_end_name(ProbeEnd end);  // "no_tool"

struct ProbeReport {
  DeviceKind kind = DeviceKind::kOther;
  std::string tool;  // "nvidia-smi"; of AMD the one that answered
  ProbeEnd end = ProbeEnd::kNoTool;
  std::string message;      // of what went wrong, one line that names the tool
  int32_t num_devices = 0;  // of the kind, those that only the kernel lists among them
};

struct Inventory {
  CpuInfo cpu;
  MemoryInfo memory;
  std::vector<DeviceInfo> devices;  // by kind and index, without the CPU
  std::vector<ProbeReport> probes;  // one a kind that has a tool

  // The CPU as a device: its memory is the machine's, as far as this process may use it.
  DeviceInfo cpu_device() const;
};

struct InventoryOptions {
  HostRoots roots;
  std::string path;  // where tools are looked for; empty: PATH and the folders that vendors install to
  ToolLimits limits;
};

// Blocks until the slowest tool has answered, limits.time_max at most and half a second: all run side by side, on
// threads of their own. Any thread. A stop ends it early, with what is known by then.
Inventory take_inventory(const InventoryOptions& options, const std::stop_token& stop = {});

// Numbers that are not known are null; bytes, and loads from 0 to 1.
Json device_json(const DeviceInfo& device);
Json inventory_json(const Inventory& inventory);

// PATH, then the folders that vendors install their tools to.
std::string tool_path();

}  // namespace quern
