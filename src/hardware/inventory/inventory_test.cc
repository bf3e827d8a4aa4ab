// Trees of the test's own for /proc and /sys, and tools that are scripts.
#include "hardware/inventory/inventory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "hardware/inventory/pci.h"
#include "hardware/inventory/samples_testing.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;
using inventory_testing::kSamples;
using inventory_testing::sample;

class InventoryTest : public ::testing::Test {
 protected:
  InventoryTest() {
    std::string pattern = (fs::temp_directory_path() / "quern-inventory-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    options_ = {.roots = {.proc = root_ / "proc", .sys = root_ / "sys"}, .path = (root_ / "bin").string()};
    fs::create_directories(root_ / "bin");
  }
  ~InventoryTest() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }
  void add_pci(const std::string& address, const std::string& vendor, const std::string& device_class,
               const std::string& driver) {
    const std::string folder = "sys/bus/pci/devices/" + address + "/";
    put(folder + "vendor", vendor + "\n");
    put(folder + "device", "0x20b0\n");
    put(folder + "class", device_class + "\n");
    put(folder + "numa_node", "1\n");
    if (!driver.empty()) {
      fs::create_directories(root_ / "sys/bus/pci/drivers" / driver);
      fs::create_directory_symlink(root_ / "sys/bus/pci/drivers" / driver, root_ / folder / "driver");
    }
  }
  void add_tool(const std::string& name, const std::string& script) {
    put("bin/" + name, "#!/bin/sh\n" + script);
    fs::permissions(root_ / "bin" / name, fs::perms::owner_all);
  }
  void add_printing_tool(const std::string& name, const std::string& sample_name) {
    add_tool(name, "/bin/cat " + (kSamples / (sample_name + ".txt")).string() + "\n");
  }
  static const ProbeReport& report_of(const Inventory& inventory, DeviceKind kind) {
    return *std::ranges::find(inventory.probes, kind, &ProbeReport::kind);
  }

  fs::path root_;
  InventoryOptions options_;
};

TEST_F(InventoryTest, NothingIsAnAnswer) {
  const Inventory inventory = take_inventory(options_);
  EXPECT_TRUE(inventory.devices.empty());
  EXPECT_EQ(inventory.probes.size(), 10u);
  for (const ProbeReport& probe : inventory.probes) {
    EXPECT_EQ(probe.end, ProbeEnd::kNoTool) << probe.tool;
    EXPECT_TRUE(probe.message.empty());
    EXPECT_EQ(probe.num_devices, 0);
  }
  EXPECT_EQ(inventory.cpu.threads, 0);
  EXPECT_EQ(inventory.memory.total_bytes, 0);
  EXPECT_EQ(inventory_json(inventory)["data"].size(), 1u);  // the CPU
}

TEST_F(InventoryTest, ThisMachine) {
  const HostRoots roots;
  const CpuInfo cpu = read_cpu(roots);
  EXPECT_GT(cpu.threads, 0);
  EXPECT_GE(cpu.threads, cpu.usable_threads);
  EXPECT_GT(cpu.usable_threads, 0);
  const MemoryInfo memory = read_memory(roots);
  EXPECT_GT(memory.total_bytes, 0);
  EXPECT_GT(memory.usable_available_bytes(), 0);
  EXPECT_LE(memory.usable_available_bytes(), memory.total_bytes);
}

TEST_F(InventoryTest, Processors) {
  put("proc/cpuinfo", sample("cpuinfo-x86"));
  put("proc/loadavg", "0.50 0.40 0.30 1/100 4711\n");
  put("proc/self/status", "Name:\tx\nCpus_allowed:\t7\nCpus_allowed_list:\t0-2\nMems_allowed_list:\t0\n");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    put(folder + "topology/physical_package_id", "0\n");
    put(folder + "topology/core_id", std::to_string(cpu / 2) + "\n");
    put(folder + "cache/index0/level", "1\n");
    put(folder + "cache/index0/type", "Data\n");
    put(folder + "cache/index0/size", "48K\n");
    put(folder + "cache/index0/shared_cpu_list", cpu < 2 ? "0-1\n" : "2-3\n");
    put(folder + "cache/index3/level", "3\n");
    put(folder + "cache/index3/type", "Unified\n");
    put(folder + "cache/index3/size", "107520K\n");
    put(folder + "cache/index3/shared_cpu_list", "0-3\n");
  }
  put("sys/devices/system/cpu/cpufreq/x", "1\n");
  put("sys/devices/system/node/node0/cpulist", "0-3\n");
  put("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree:        512 kB\n");
  const CpuInfo cpu = read_cpu(options_.roots);
  EXPECT_EQ(cpu.name, "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz");
  EXPECT_EQ(cpu.sockets, 1);
  EXPECT_EQ(cpu.cores, 2);
  EXPECT_EQ(cpu.threads, 4);
  EXPECT_EQ(cpu.usable_threads, 3);
  EXPECT_EQ(cpu.load_average, 0.5);
  EXPECT_EQ(std::ranges::count(cpu.instruction_sets, "amx_int8"), 1);
  EXPECT_EQ(std::ranges::count(cpu.instruction_sets, "sve"), 0);
  ASSERT_EQ(cpu.caches.size(), 2u);
  EXPECT_EQ(cpu.caches[0].bytes, 48 * 1024);
  EXPECT_EQ(cpu.caches[0].count, 2);
  EXPECT_EQ(cpu.caches[1].count, 1);
  ASSERT_EQ(cpu.numa.size(), 1u);
  EXPECT_EQ(cpu.numa[0].cpus, "0-3");
  EXPECT_EQ(cpu.numa[0].memory_free_bytes, 512 * 1024);
}

TEST_F(InventoryTest, ArmProcessors) {
  const CpuText text = parse_cpuinfo(sample("cpuinfo-arm"));
  EXPECT_EQ(text.name, "Arm designer 0x48 part 0xd02");
  EXPECT_EQ(text.instruction_sets,
            (std::vector<std::string>{"asimd", "asimddp", "fphp", "asimdhp", "i8mm", "bf16", "sve"}));
}

TEST_F(InventoryTest, MemoryOfTheTightestGroup) {
  put("proc/meminfo", sample("meminfo"));
  const int64_t kib = 1024;
  EXPECT_EQ(read_memory(options_.roots).usable_available_bytes(), 8192000 * kib);
  EXPECT_FALSE(read_memory(options_.roots).limit_bytes);

  put("proc/self/cgroup", "0::/system.slice/quern.service\n");
  put("sys/fs/cgroup/system.slice/memory.max", "max\n");
  put("sys/fs/cgroup/system.slice/memory.current", "1\n");
  const std::string unit = "sys/fs/cgroup/system.slice/quern.service/";
  put(unit + "memory.max", "4294967296\n");
  put(unit + "memory.current", "3221225472\n");
  put(unit + "memory.stat", "anon 1\ninactive_file 1073741824\nfile 2\n");
  put(unit + "cpu.max", "150000 100000\n");
  const MemoryInfo memory = read_memory(options_.roots);
  EXPECT_EQ(memory.usable_total_bytes(), 4096 * kMiB);
  EXPECT_EQ(memory.limit_used_bytes, 2048 * kMiB);  // pages of files that can go do not count
  EXPECT_EQ(memory.usable_available_bytes(), 2048 * kMiB);
  EXPECT_EQ(read_cpu(options_.roots).quota, 1.5);

  // A slice around it that is tighter, and a path that would lead out of the tree.
  put("sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
  put("sys/fs/cgroup/system.slice/memory.current", "2147483648\n");
  EXPECT_EQ(read_memory(options_.roots).usable_available_bytes(), 0);
  put("proc/self/cgroup", "0::/../../x\n");
  EXPECT_FALSE(read_memory(options_.roots).limit_bytes);
}

TEST_F(InventoryTest, MemoryOfVersionOneGroups) {
  put("proc/meminfo", sample("meminfo"));
  put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n");
  EXPECT_EQ(read_memory(options_.roots).usable_available_bytes(), 512 * kMiB);
}

TEST_F(InventoryTest, ToolAndKernelAreOneDevice) {
  add_printing_tool("nvidia-smi", "nvidia-smi");
  add_pci("0000:3b:00.0", "0x10de", "0x030200", "nvidia");
  add_pci("0000:86:00.0", "0x10de", "0x030200", "nvidia");
  add_pci("0000:c1:00.0", "0x10de", "0x030200", "vfio-pci");
  add_pci("0000:3b:00.1", "0x10de", "0x040300", "snd_hda_intel");  // its sound
  const Inventory inventory = take_inventory(options_);
  ASSERT_EQ(inventory.devices.size(), 4u);
  EXPECT_EQ(inventory.devices[0].numa_node, 1);
  EXPECT_EQ(inventory.devices[0].source, "nvidia-smi");
  EXPECT_FALSE(inventory.devices[2].numa_node);
  EXPECT_EQ(inventory.devices[3].id(), "cuda:3");
  EXPECT_EQ(inventory.devices[3].state, DeviceState::kNoDriver);
  const ProbeReport& report = report_of(inventory, DeviceKind::kCuda);
  EXPECT_EQ(report.end, ProbeEnd::kOk);
  EXPECT_EQ(report.num_devices, 4);
}

TEST_F(InventoryTest, KernelAloneTellsWhatItKnows) {
  add_pci("0000:3b:00.0", "0x10de", "0x030200", "nvidia");
  put("proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version: "
      "12.2.0\n");
  put("proc/driver/nvidia/gpus/0000:3b:00.0/information",
      "Model: \t\t NVIDIA L4\nIRQ:   \t\t 51\nGPU UUID: \t GPU-aa\nBus Location: \t 0000:3b:00.0\n");
  add_pci("0000:03:00.0", "0x1002", "0x030000", "amdgpu");
  put("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "17163091968\n");
  put("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used", "1073741824\n");
  put("sys/bus/pci/devices/0000:03:00.0/gpu_busy_percent", "50\n");
  add_pci("0000:04:00.0", "0x8086", "0x030000", "i915");
  put("sys/bus/pci/devices/0000:04:00.0/drm/card1/lmem_total_bytes", "8589934592\n");
  put("sys/bus/pci/devices/0000:04:00.0/drm/card1/lmem_avail_bytes", "4294967296\n");
  add_pci("0000:05:00.0", "0x8086", "0x030000", "xe");
  put("sys/bus/pci/devices/0000:05:00.0/tile0/physical_vram_size_bytes", "12884901888\n");
  add_pci("0000:06:00.0", "0x1da3", "0x120000", "habanalabs");
  add_pci("0000:07:00.0", "0x19e5", "0x030000", "hibmc-drm");  // a server's management chip
  add_pci("0000:08:00.0", "0x1a03", "0x030000", "ast");
  add_pci("0000:09:00.0", "0x19e5", "0x120000", "");
  const Inventory inventory = take_inventory(options_);
  std::vector<std::string> ids;
  for (const DeviceInfo& device : inventory.devices) ids.push_back(device.id());
  ASSERT_EQ(ids, (std::vector<std::string>{"cuda:0", "rocm:0", "xpu:0", "xpu:1", "npu:0", "other:0"}));
  const auto& devices = inventory.devices;
  EXPECT_EQ(devices[0].name, "NVIDIA L4");
  EXPECT_EQ(devices[0].driver, "535.129.03");
  EXPECT_EQ(devices[0].uuid, "GPU-aa");
  EXPECT_EQ(devices[0].state, DeviceState::kNoTool);
  EXPECT_EQ(devices[0].message, "nvidia-smi is not installed");
  EXPECT_EQ(devices[1].state, DeviceState::kOk);
  EXPECT_EQ(devices[1].memory_free_bytes, 17163091968 - 1073741824);
  EXPECT_EQ(devices[1].load, 0.5);
  EXPECT_EQ(devices[2].memory_free_bytes, 4096 * kMiB);
  EXPECT_EQ(devices[3].memory_total_bytes, 12288 * kMiB);
  EXPECT_EQ(devices[4].state, DeviceState::kNoDriver);
  EXPECT_EQ(devices[5].name, "Habana 20b0");
  EXPECT_EQ(devices[5].message, "only the kernel knows it");
}

TEST_F(InventoryTest, ToolsOfEveryKind) {
  add_tool("amd-smi", "/bin/cat " + kSamples.string() + "/amd-smi-$1.txt\n");
  add_tool("xpu-smi",
           "case \"$1 $2\" in 'discovery -j') f=discovery;; 'discovery -d') f=details;; *) f=stats;; esac\n"
           "/bin/cat " +
               kSamples.string() + "/xpu-smi-$f.txt\n");
  for (const char* name : {"hy-smi", "npu-smi", "cnmon", "mthreads-gmi", "mx-smi", "ixsmi", "nvidia-smi",
                           "system_profiler", "sysctl", "vm_stat"}) {
    add_printing_tool(name, name);
  }
  const Inventory inventory = take_inventory(options_);
  for (const ProbeReport& probe : inventory.probes) {
    EXPECT_EQ(probe.end, ProbeEnd::kOk) << probe.tool << ": " << probe.message;
    EXPECT_GT(probe.num_devices, 0) << probe.tool;
  }
  EXPECT_EQ(inventory.devices.size(), 3u + 2 + 1 + 1 + 2 + 2 + 2 + 2 + 2 + 1);
  const auto intel = std::ranges::find(inventory.devices, DeviceKind::kXpu, &DeviceInfo::kind);
  EXPECT_EQ(intel->memory_free_bytes, 15032385536 - 1536 * kMiB);
}

// Both tools list the same cards: they are Hygon's, once.
TEST_F(InventoryTest, RocmSmiOfHygonAddsNoSecondCard) {
  add_printing_tool("hy-smi", "hy-smi");
  add_printing_tool("rocm-smi", "hy-smi");
  const Inventory inventory = take_inventory(options_);
  EXPECT_EQ(inventory.devices.size(), 2u);
  EXPECT_EQ(report_of(inventory, DeviceKind::kRocm).num_devices, 0);
}

TEST_F(InventoryTest, BadToolsAreNamedAndHurtNobody) {
  add_tool("nvidia-smi",
           "echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"; exit 9\n");
  add_tool("npu-smi", "sleep 1000\n");
  add_tool("cnmon", "/usr/bin/head -c 2000 /dev/urandom\n");
  add_tool("mx-smi", "exec yes\n");
  add_tool("rocm-smi", "echo 'no device' >&2; exit 1\n");
  add_printing_tool("mthreads-gmi", "mthreads-gmi");
  add_pci("0000:3b:00.0", "0x10de", "0x030200", "nvidia");
  options_.limits.time_max = std::chrono::milliseconds(3000);
  const Inventory inventory = take_inventory(options_);
  const ProbeReport& nvidia = report_of(inventory, DeviceKind::kCuda);
  EXPECT_EQ(nvidia.end, ProbeEnd::kFailed);
  EXPECT_EQ(nvidia.message,
            "nvidia-smi: exit status 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.");
  EXPECT_EQ(report_of(inventory, DeviceKind::kNpu).message, "npu-smi: no answer in 3000 ms");
  EXPECT_EQ(report_of(inventory, DeviceKind::kNpu).end, ProbeEnd::kTimeout);
  EXPECT_EQ(report_of(inventory, DeviceKind::kMlu).end, ProbeEnd::kUnreadable);
  EXPECT_TRUE(report_of(inventory, DeviceKind::kMlu).message.starts_with("cnmon: its output is not understood"));
  EXPECT_EQ(report_of(inventory, DeviceKind::kMaca).end, ProbeEnd::kUnreadable);
  EXPECT_EQ(report_of(inventory, DeviceKind::kRocm).end, ProbeEnd::kNoDevice);
  ASSERT_EQ(inventory.devices.size(), 3u);
  EXPECT_EQ(inventory.devices[0].state, DeviceState::kNoTool);
  EXPECT_EQ(inventory.devices[0].message, nvidia.message);
  EXPECT_EQ(inventory.devices[1].kind, DeviceKind::kMusa);
}

TEST_F(InventoryTest, JsonHasEveryField) {
  add_printing_tool("nvidia-smi", "nvidia-smi");
  put("proc/meminfo", sample("meminfo"));
  put("proc/cpuinfo", sample("cpuinfo-x86"));
  const Json json = inventory_json(take_inventory(options_));
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["data"][0]["id"], "cpu");
  EXPECT_EQ(json["data"][0]["memory_total"], int64_t{16384000} * 1024);
  EXPECT_EQ(json["data"][1]["id"], "cuda:0");
  EXPECT_EQ(json["data"][3]["memory_total"], nullptr);
  EXPECT_EQ(json["data"][1]["state"], "ok");
  EXPECT_EQ(json["cpu"]["threads"], 2);
  EXPECT_EQ(json["memory"]["limit"], nullptr);
  EXPECT_EQ(json["probes"][0]["result"], "ok");
}

TEST(CpuList, Ranges) {
  EXPECT_EQ(count_cpu_list("0-3,8\n"), 5);
  EXPECT_EQ(count_cpu_list("7"), 1);
  EXPECT_EQ(count_cpu_list(""), 0);
  EXPECT_EQ(count_cpu_list("3-1"), 0);
  EXPECT_EQ(count_cpu_list("0-99999999"), 0);
  EXPECT_EQ(count_cpu_list("a-b"), 0);
}

}  // namespace
}  // namespace quern
