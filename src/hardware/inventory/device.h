// What can compute in a machine: the words for it, without where they come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

// By the software a program needs to compute there, not by who made it. The names are those that programs of the field
// use for their devices ("cuda:0", "npu:0").
enum class DeviceKind : uint8_t {
  kCpu,
  kCuda,      // NVIDIA
  kRocm,      // AMD
  kXpu,       // Intel GPUs
  kMetal,     // Apple
  kNpu,       // Huawei Ascend
  kDcu,       // Hygon
  kMlu,       // Cambricon
  kMusa,      // Moore Threads
  kMaca,      // MetaX
  kIluvatar,  // Iluvatar CoreX
  kVulkan,    // any GPU, by its graphics driver; never found as such
  kOther,     // known to the kernel alone: Kunlun, Gaudi, Enflame …
};
const char* device_kind_name(DeviceKind kind);  // "cuda"
// As a sentence needs it: "CUDA", "Ascend".
const char* device_kind_words(DeviceKind kind);

enum class DeviceState : uint8_t {
  kOk,
  kUnhealthy,  // its tool says so
  kNoTool,     // the kernel lists it and has a driver for it, but nothing here can ask it
  kNoDriver,   // the kernel lists it and has no driver for it
};
const char* device_state_name(DeviceState state);  // "no_driver"

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kOther;
  int32_t index = 0;  // among those of its kind, as its tool counts
  std::string vendor;
  std::string name;
  std::string pci;     // "0000:3b:00.0", lower case; empty where it has none
  std::string uuid;    // "GPU-…"; empty: not known
  std::string driver;  // version, or the kernel module's name where only that is known
  std::optional<int64_t> memory_total_bytes;
  std::optional<int64_t> memory_free_bytes;
  std::optional<double> load;         // 0 to 1
  std::optional<int32_t> numa_node;   // of the machine's memory that is nearest
  bool shares_system_memory = false;  // memory_total_bytes is the machine's own
  DeviceState state = DeviceState::kOk;
  std::string message;  // of a state that is not kOk: one line
  std::string source;   // who said so: "nvidia-smi", "sysfs"

  std::string id() const;  // "cuda:0"; the CPU's is "cpu"
};

// "00000000:3B:00.0" and "3B:00.0" as "0000:3b:00.0"; empty for what is no address.
std::string normal_pci_address(std::string_view text);

}  // namespace quern
