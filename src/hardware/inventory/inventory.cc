#include "hardware/inventory/inventory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/status.h"
#include "hardware/inventory/pci.h"
#include "hardware/inventory/tool_parsers.h"

namespace quern {
namespace {

using Arguments = std::vector<std::string>;

// Of one kind, by its tool.
struct Probe {
  ProbeReport report;
  Devices devices;
};

class Tools {
 public:
  Tools(std::string path, const ToolLimits& limits, std::stop_token stop)
      : path_(std::move(path)), limits_(limits), stop_(std::move(stop)) {}
  ToolOutput run(std::string_view tool, const Arguments& arguments) const {
    return run_tool(path_, tool, arguments, limits_, stop_);
  }

 private:
  std::string path_;
  ToolLimits limits_;
  std::stop_token stop_;
};

ProbeEnd end_of(const ToolOutput& output) {
  switch (output.end) {
    case ToolEnd::kDone: return ProbeEnd::kOk;
    case ToolEnd::kAbsent: return ProbeEnd::kNoTool;
    case ToolEnd::kTimeout:
    case ToolEnd::kCancelled: return ProbeEnd::kTimeout;
    case ToolEnd::kTooMuch: return ProbeEnd::kUnreadable;
    case ToolEnd::kFailed: break;
  }
  // Some end with an error where there is nothing to list.
  const bool says_none =
      output.message.find("No devices") != std::string::npos || output.message.find("no device") != std::string::npos;
  return says_none ? ProbeEnd::kNoDevice : ProbeEnd::kFailed;
}

void set_failure(const ToolOutput& output, ProbeReport& report) {
  report.end = end_of(output);
  if (report.end != ProbeEnd::kNoTool && report.end != ProbeEnd::kNoDevice) report.message = output.message;
}

void set_devices(Result<Devices> devices, Probe& probe) {
  if (!devices) {
    probe.report.end = ProbeEnd::kUnreadable;
    probe.report.message = devices.error().message;
    return;
  }
  probe.report.end = devices->empty() ? ProbeEnd::kNoDevice : ProbeEnd::kOk;
  probe.devices = std::move(*devices);
}

// A tool that tells everything in one run.
template <class Parse>
Probe ask(const Tools& tools, DeviceKind kind, const char* tool, const Arguments& arguments, Parse parse) {
  Probe probe{.report = {.kind = kind, .tool = tool}};
  const ToolOutput output = tools.run(tool, arguments);
  if (output.end != ToolEnd::kDone) {
    set_failure(output, probe.report);
  } else {
    set_devices(parse(output.text), probe);
  }
  return probe;
}

Probe ask_csv(const Tools& tools, DeviceKind kind, const char* tool, const char* fields) {
  return ask(tools, kind, tool, {fmt::format("--query-gpu={}", fields), "--format=csv"},
             [&](std::string_view text) { return parse_query_csv(text, kind, tool); });
}

Probe ask_nvidia(const Tools& tools) {
  return ask_csv(tools, DeviceKind::kCuda, "nvidia-smi",
                 "index,uuid,pci.bus_id,memory.total,memory.free,utilization.gpu,driver_version,name");
}

Probe ask_iluvatar(const Tools& tools) {
  return ask_csv(tools, DeviceKind::kIluvatar, "ixsmi",
                 "index,uuid,pci.bus_id,memory.total,memory.used,utilization.gpu,driver_version,name");
}

const Arguments kRocmArguments = {"--showproductname", "--showmeminfo",       "vram",  "--showuse",
                                  "--showbus",         "--showdriverversion", "--json"};

Probe ask_amd(const Tools& tools) {
  Probe probe{.report = {.kind = DeviceKind::kRocm, .tool = "amd-smi"}};
  const ToolOutput fixed = tools.run("amd-smi", {"static", "--json"});
  if (fixed.end == ToolEnd::kAbsent) {
    return ask(tools, DeviceKind::kRocm, "rocm-smi", kRocmArguments,
               [](std::string_view text) { return parse_rocm_smi(text, DeviceKind::kRocm, "rocm-smi"); });
  }
  const ToolOutput moving = fixed.end == ToolEnd::kDone ? tools.run("amd-smi", {"metric", "--json"}) : fixed;
  if (moving.end != ToolEnd::kDone) {
    set_failure(moving, probe.report);
  } else {
    set_devices(parse_amd_smi(fixed.text, moving.text), probe);
  }
  return probe;
}

Probe ask_hygon(const Tools& tools) {
  return ask(tools, DeviceKind::kDcu, "hy-smi", kRocmArguments,
             [](std::string_view text) { return parse_rocm_smi(text, DeviceKind::kDcu, "hy-smi"); });
}

Probe ask_intel(const Tools& tools) {
  Probe probe = ask(tools, DeviceKind::kXpu, "xpu-smi", {"discovery", "-j"}, parse_xpu_discovery);
  for (DeviceInfo& device : probe.devices) {
    const std::string id = std::to_string(device.index);
    const ToolOutput details = tools.run("xpu-smi", {"discovery", "-d", id, "-j"});
    const ToolOutput stats = details.end == ToolEnd::kDone ? tools.run("xpu-smi", {"stats", "-d", id, "-j"}) : details;
    Status status = details.end == ToolEnd::kDone ? add_xpu_details(details.text, device) : Status();
    if (status && stats.end == ToolEnd::kDone) status = add_xpu_stats(stats.text, device);
    // The devices are known: what is missing of them is only told.
    if (!status) probe.report.message = status.error().message;
    if (stats.end == ToolEnd::kDone) continue;
    probe.report.message = stats.message;
    break;
  }
  return probe;
}

Probe ask_apple(const Tools& tools) {
  Probe probe =
      ask(tools, DeviceKind::kMetal, "system_profiler", {"SPDisplaysDataType", "-json"}, parse_system_profiler);
  if (!probe.devices.empty()) {
    add_apple_memory(tools.run("sysctl", {"hw.memsize"}).text, tools.run("vm_stat", {}).text, probe.devices);
  }
  return probe;
}

Probe ask_ascend(const Tools& tools) {
  return ask(tools, DeviceKind::kNpu, "npu-smi", {"info"}, parse_npu_smi);
}
Probe ask_cambricon(const Tools& tools) {
  return ask(tools, DeviceKind::kMlu, "cnmon", {}, parse_cnmon);
}
Probe ask_moore_threads(const Tools& tools) {
  return ask(tools, DeviceKind::kMusa, "mthreads-gmi", {}, parse_mthreads_gmi);
}
Probe ask_metax(const Tools& tools) {
  return ask(tools, DeviceKind::kMaca, "mx-smi", {}, parse_mx_smi);
}

// Hygon before AMD: where both their tools are, each lists the same cards.
using Ask = Probe (*)(const Tools&);
constexpr Ask kAsks[] = {ask_nvidia, ask_hygon,     ask_amd,           ask_intel, ask_apple,
                         ask_ascend, ask_cambricon, ask_moore_threads, ask_metax, ask_iluvatar};

std::vector<Probe> ask_all(const Tools& tools) {
  std::vector<Probe> probes(std::size(kAsks));
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < probes.size(); ++i) {
    threads.emplace_back([&, i] { probes[i] = kAsks[i](tools); });
  }
  threads.clear();  // joins
  return probes;
}

bool same_card(const DeviceInfo& a, const DeviceInfo& b) {
  return !a.pci.empty() && a.pci == b.pci;
}

// A card that its tool told of takes what only the kernel knows; one that no tool told of is taken as it is.
void add_kernel_device(DeviceInfo kernel, const std::vector<Probe>& probes, std::vector<DeviceInfo>& devices) {
  const auto told = std::ranges::find_if(devices, [&](const DeviceInfo& d) { return same_card(d, kernel); });
  if (told != devices.end()) {
    told->numa_node = kernel.numa_node;
    if (told->name.empty()) told->name = kernel.name;
    if (told->driver.empty()) told->driver = kernel.driver;
    return;
  }
  const auto probe = std::ranges::find_if(probes, [&](const Probe& p) { return p.report.kind == kernel.kind; });
  // A tool that lists its cards without their addresses has told of this one.
  const bool has_addresses =
      probe != probes.end() && std::ranges::all_of(probe->devices, [](const DeviceInfo& d) { return !d.pci.empty(); });
  if (probe != probes.end() && !probe->devices.empty() && !has_addresses) return;
  int32_t index = 0;
  for (const DeviceInfo& device : devices) {
    if (device.kind == kernel.kind) index = std::max(index, device.index + 1);
  }
  kernel.index = index;
  if (kernel.state == DeviceState::kOk && !kernel.memory_total_bytes) {
    kernel.state = DeviceState::kNoTool;
    if (probe == probes.end()) {
      kernel.message = "only the kernel knows it";
    } else if (!probe->report.message.empty()) {
      kernel.message = probe->report.message;
    } else {
      kernel.message = fmt::format("{} {}", probe->report.tool,
                                   probe->report.end == ProbeEnd::kNoTool ? "is not installed" : "does not list it");
    }
  }
  devices.push_back(std::move(kernel));
}

}  // namespace

const char* probe_end_name(ProbeEnd end) {
  switch (end) {
    case ProbeEnd::kOk: return "ok";
    case ProbeEnd::kNoTool: return "no_tool";
    case ProbeEnd::kNoDevice: return "no_device";
    case ProbeEnd::kFailed: return "failed";
    case ProbeEnd::kTimeout: return "timeout";
    case ProbeEnd::kUnreadable: return "unreadable";
  }
  return "failed";
}

std::string tool_path() {
  const char* set = std::getenv("PATH");
  std::string path = set != nullptr ? set : "/usr/local/bin:/usr/bin:/bin";
  const std::filesystem::path optional = "/opt", local = "/usr/local";
  for (const char* folder : {"rocm/bin", "hyhal/bin", "mxdriver/bin"}) path += ":" + (optional / folder).string();
  for (const char* folder : {"corex/bin", "neuware/bin", "musa/bin", "Ascend/driver/tools", "sbin"})
    path += ":" + (local / folder).string();
  return path + ":/usr/sbin:/sbin";
}

DeviceInfo Inventory::cpu_device() const {
  DeviceInfo device{.kind = DeviceKind::kCpu,
                    .name = cpu.name,
                    .memory_total_bytes = memory.usable_total_bytes(),
                    .memory_free_bytes = memory.usable_available_bytes(),
                    .shares_system_memory = true,
                    .source = "proc"};
  if (cpu.threads > 0) device.load = std::clamp(cpu.load_average / cpu.threads, 0.0, 1.0);
  return device;
}

Inventory take_inventory(const InventoryOptions& options, const std::stop_token& stop) {
  const Tools tools(options.path.empty() ? tool_path() : options.path, options.limits, stop);
  Inventory inventory{.cpu = read_cpu(options.roots), .memory = read_memory(options.roots)};
  const std::vector<Probe> probes = ask_all(tools);
  for (const Probe& probe : probes) {
    for (const DeviceInfo& device : probe.devices) {
      const auto twin = std::ranges::find_if(inventory.devices, [&](const DeviceInfo& other) {
        // Two chips of one card have one address, and one tool.
        return (same_card(device, other) && device.source != other.source) ||
               (device.kind == other.kind && device.index == other.index);
      });
      if (twin == inventory.devices.end()) inventory.devices.push_back(device);
    }
  }
  for (DeviceInfo& device : read_pci_devices(options.roots)) {
    add_kernel_device(std::move(device), probes, inventory.devices);
  }
  std::ranges::stable_sort(inventory.devices, [](const DeviceInfo& a, const DeviceInfo& b) {
    return std::pair(a.kind, a.index) < std::pair(b.kind, b.index);
  });
  for (const Probe& probe : probes) {
    inventory.probes.push_back(probe.report);
    inventory.probes.back().num_devices =
        static_cast<int32_t>(std::ranges::count(inventory.devices, probe.report.kind, &DeviceInfo::kind));
  }
  return inventory;
}

}  // namespace quern
