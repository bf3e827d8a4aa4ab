// quern devices: what this machine can compute on, and what stands in the way of the rest.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "hardware/inventory/placement.h"

namespace quern::cli {
namespace {

struct DevicesOptions {
  std::string engine;
  double timeout_s = 8;
  bool json = false;
};

std::string cache_text(int64_t bytes) {
  return bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10) : size_text(bytes);
}

std::string memory_text(const DeviceInfo& device) {
  const std::string free = size_text(device.memory_free_bytes.value_or(-1));
  return free + " of " + size_text(device.memory_total_bytes.value_or(-1));
}

void print_host(const Inventory& inventory) {
  const CpuInfo& cpu = inventory.cpu;
  std::string sets;
  for (const std::string& set : cpu.instruction_sets) sets += (sets.empty() ? "" : " ") + set;
  std::printf("CPU        %s, %s\n", cpu.architecture.c_str(), sets.c_str());
  std::printf("           %d sockets, %d cores, %d threads, %d of them for this process%s\n", cpu.sockets, cpu.cores,
              cpu.threads, cpu.usable_threads,
              cpu.quota ? fmt::format(", {:.1f} by control group", *cpu.quota).c_str() : "");
  std::string caches;
  for (const CpuCache& cache : cpu.caches) {
    const char* letter = cache.type == "Data" ? "d" : cache.type == "Instruction" ? "i" : "";
    caches += fmt::format("{}L{}{} {} x {}", caches.empty() ? "" : ", ", cache.level, letter, cache.count,
                          cache_text(cache.bytes));
  }
  if (!caches.empty()) std::printf("           %s\n", caches.c_str());
  for (const NumaNode& node : cpu.numa) {
    std::printf("           node %d: threads %s, %s of %s free\n", node.id, node.cpus.c_str(),
                size_text(node.memory_free_bytes).c_str(), size_text(node.memory_total_bytes).c_str());
  }
  const MemoryInfo& memory = inventory.memory;
  std::printf("memory     %s of %s available", size_text(memory.available_bytes).c_str(),
              size_text(memory.total_bytes).c_str());
  if (memory.limit_bytes) {
    std::printf("; the control group leaves %s of %s", size_text(memory.usable_available_bytes()).c_str(),
                size_text(memory.usable_total_bytes()).c_str());
  }
  std::printf("\n\n");
}

void print_devices(const Inventory& inventory, const std::string& engine) {
  std::printf("%-12s %-40s %-24s %5s  %-14s %s\n", "DEVICE", "NAME", "MEMORY FREE", "LOAD", "DRIVER", "STATE");
  for (const DeviceFit& fit : fit_devices(inventory, engine)) {
    const DeviceInfo& device = fit.device;
    const std::string load = device.load ? fmt::format("{:.0f}%", *device.load * 100) : "?";
    std::string state = device_state_name(device.state);
    if (!device.message.empty()) state += ": " + device.message;
    if (!engine.empty() && !fit.reason.empty()) state += "; " + fit.reason;
    std::printf("%-12s %-40s %-24s %5s  %-14s %s\n", device.id().c_str(), device.name.c_str(),
                memory_text(device).c_str(), load.c_str(), device.driver.empty() ? "-" : device.driver.c_str(),
                state.c_str());
  }
  std::string missing;
  for (const ProbeReport& probe : inventory.probes) {
    if (probe.end == ProbeEnd::kNoTool || probe.end == ProbeEnd::kNoDevice) {
      if (probe.num_devices == 0) missing += (missing.empty() ? "" : ", ") + std::string(device_kind_name(probe.kind));
    }
  }
  if (!missing.empty()) std::printf("\nno tool, no device: %s\n", missing.c_str());
  for (const ProbeReport& probe : inventory.probes) {
    if (!probe.message.empty()) std::printf("%s\n", probe.message.c_str());
  }
}

Json engine_json(const Inventory& inventory, const std::string& engine) {
  Json fits = Json::array();
  for (const DeviceFit& fit : fit_devices(inventory, engine)) {
    fits.push_back({{"id", fit.device.id()},
                    {"runs", fit.reason.empty()},
                    {"reason", fit.reason.empty() ? Json(nullptr) : Json(fit.reason)}});
  }
  return {{"name", engine}, {"devices", std::move(fits)}};
}

Status devices(const DevicesOptions& options) {
  if (!options.engine.empty() && engine_device_kinds(options.engine).empty()) {
    return invalid_argument(fmt::format("--engine: '{}' is not one of quern, vllm, sglang, llama.cpp", options.engine));
  }
  InventoryOptions wanted;
  wanted.limits.time_max = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  const Inventory inventory = take_inventory(wanted);
  if (options.json) {
    Json json = inventory_json(inventory);
    if (!options.engine.empty()) json["engine"] = engine_json(inventory, options.engine);
    print_json(json);
    return {};
  }
  print_host(inventory);
  print_devices(inventory, options.engine);
  return {};
}

}  // namespace

void add_devices(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<DevicesOptions>();
  CLI::App* command = app.add_subcommand("devices", "processors, memory and accelerators of this machine");
  command->add_option("--engine", options->engine,
                      "tell which of them this engine computes on: quern, vllm, sglang, llama.cpp");
  command->add_option("--timeout", options->timeout_s, "seconds that a vendor's tool may take")
      ->check(CLI::Range(0.1, 120.0))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(devices(*options), *command, exit); });
}

}  // namespace quern::cli
