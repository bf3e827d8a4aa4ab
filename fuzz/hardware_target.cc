// Outputs of vendors' tools, and the kernel's texts about processors and memory.
#include "base/check.h"
#include "hardware/inventory/device_name.h"
#include "hardware/inventory/host.h"
#include "hardware/inventory/inventory.h"
#include "hardware/inventory/tool_parsers.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

void check(const Result<Devices>& devices) {
  if (!devices) return check_refusal(devices.error());
  for (const DeviceInfo& device : *devices) {
    QUERN_CHECK(device.index >= 0);
    QUERN_CHECK(device.name.size() <= 160 && device.message.size() <= 512);
    if (device.memory_total_bytes) QUERN_CHECK(*device.memory_total_bytes >= 0);
    if (device.memory_free_bytes) QUERN_CHECK(*device.memory_free_bytes >= 0);
    if (device.load) QUERN_CHECK(*device.load >= 0 && *device.load <= 1);
    QUERN_CHECK(!dump_json(device_json(device)).empty());
  }
}

// Those that add to a device that is known.
void run_details(std::string_view text) {
  DeviceInfo device;
  if (const Status status = add_xpu_details(text, device); !status) check_refusal(status.error());
  if (const Status status = add_xpu_stats(text, device); !status) check_refusal(status.error());
  Devices devices = {device};
  add_apple_memory(text, text, devices);
  check(devices);
}

void run_host(std::string_view text) {
  const CpuText cpu = parse_cpuinfo(text);
  QUERN_CHECK(cpu.threads >= 0 && cpu.name.size() <= 128);
  QUERN_CHECK(parse_meminfo(text).total_bytes >= 0);
  QUERN_CHECK(count_cpu_list(text) <= 4096);
  QUERN_CHECK(parse_cache_size(text) >= 0);
  if (const auto name = parse_device_name(text); name && name->index) QUERN_CHECK(*name->index <= 999);
}

}  // namespace

void run_hardware(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  switch (static_cast<unsigned char>(input[0]) % 11) {
    case 0: return check(parse_query_csv(text, DeviceKind::kCuda, "nvidia-smi"));
    case 1: {
      // The two outputs are told apart by a NUL, which neither has.
      const size_t middle = text.find('\0');
      const std::string_view metric = middle == std::string_view::npos ? text : text.substr(middle + 1);
      return check(parse_amd_smi(text.substr(0, middle), metric));
    }
    case 2: return check(parse_rocm_smi(text, DeviceKind::kRocm, "rocm-smi"));
    case 3: return check(parse_xpu_discovery(text));
    case 4: return run_details(text);
    case 5: return check(parse_system_profiler(text));
    case 6: return check(parse_npu_smi(text));
    case 7: return check(parse_cnmon(text));
    case 8: return check(parse_mthreads_gmi(text));
    case 9: return check(parse_mx_smi(text));
    default: return run_host(text);
  }
}

}  // namespace quern::fuzz
