#include "hardware/inventory/pci.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "hardware/inventory/tool_text.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFunctionsMax = 65536;

// Classes of PCI devices (base class and subclass; PCI Code and ID Assignment Specification): display 03xx, processing
// accelerator 12xx, co-processor 0b40.
constexpr uint32_t kDisplay = 1, kAccelerator = 2, kCoprocessor = 4;
uint32_t class_bit(uint32_t code) {
  const uint32_t base = code >> 16;
  if (base == 0x03) return kDisplay;
  if (base == 0x12) return kAccelerator;
  return code >> 8 == 0x0b40 ? kCoprocessor : 0;
}

// Vendor numbers as in the PCI ID repository. The classes matter: Huawei's display is a server's management chip,
// Intel's co-processors compress.
struct Vendor {
  uint32_t id;
  DeviceKind kind;
  uint32_t classes;
  const char* name;
};
constexpr Vendor kVendors[] = {
    {0x10de, DeviceKind::kCuda, kDisplay | kAccelerator, "NVIDIA"},
    {0x1002, DeviceKind::kRocm, kDisplay | kAccelerator, "AMD"},
    {0x8086, DeviceKind::kXpu, kDisplay, "Intel"},
    {0x19e5, DeviceKind::kNpu, kAccelerator, "Huawei"},
    {0x1d94, DeviceKind::kDcu, kDisplay | kAccelerator | kCoprocessor, "Hygon"},
    {0xcabc, DeviceKind::kMlu, kAccelerator | kCoprocessor, "Cambricon"},
    {0x1ed5, DeviceKind::kMusa, kDisplay | kAccelerator, "Moore Threads"},
    {0x9999, DeviceKind::kMaca, kDisplay | kAccelerator, "MetaX"},
    {0x1e3e, DeviceKind::kIluvatar, kDisplay | kAccelerator, "Iluvatar"},
    {0x1d22, DeviceKind::kOther, kAccelerator, "Baidu Kunlun"},
    {0x1da3, DeviceKind::kOther, kAccelerator, "Habana"},
    {0x1e36, DeviceKind::kOther, kAccelerator, "Enflame"},
    {0x1e52, DeviceKind::kOther, kAccelerator, "Tenstorrent"},
    {0x1ed2, DeviceKind::kOther, kAccelerator, "FuriosaAI"},
};

std::optional<uint32_t> read_hex(const fs::path& path) {
  const std::string text = read_kernel_file(path);
  std::string_view digits = trimmed(text);
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || digits.empty() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_bytes(const fs::path& path) {
  return memory_bytes(trimmed(read_kernel_file(path)), 1);
}

// The first file of that name in drm/card* of a device; i915 keeps its own there.
fs::path in_card(const fs::path& device, const char* name) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(device / "drm", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with("card")) continue;
    std::error_code ignored;
    if (fs::exists(entry->path() / name, ignored)) return entry->path() / name;
  }
  return {};
}

// amdgpu: Documentation/gpu/amdgpu/driver-misc.rst. xe: tileN/physical_vram_size_bytes. i915: lmem_total_bytes.
void add_driver_memory(const fs::path& folder, DeviceInfo& device) {
  auto total = read_bytes(folder / "mem_info_vram_total");
  if (total && *total > 0) {
    device.memory_total_bytes = total;
    if (const auto used = read_bytes(folder / "mem_info_vram_used"))
      device.memory_free_bytes = std::max<int64_t>(0, *total - *used);
    device.load = load_of_percent(read_kernel_file(folder / "gpu_busy_percent"));
    return;
  }
  constexpr int kTilesMax = 8;
  int64_t sum = 0;
  for (int tile = 0; tile < kTilesMax; ++tile) {
    sum += read_bytes(folder / fmt::format("tile{}", tile) / "physical_vram_size_bytes").value_or(0);
  }
  if (sum > 0) {
    device.memory_total_bytes = sum;
    return;
  }
  total = read_bytes(in_card(folder, "lmem_total_bytes"));
  if (!total || *total == 0) return;
  device.memory_total_bytes = total;
  if (const auto free = read_bytes(in_card(folder, "lmem_avail_bytes")))
    device.memory_free_bytes = std::min(*free, *total);
}

std::string driver_of(const fs::path& folder) {
  std::error_code error;
  const fs::path target = fs::read_symlink(folder / "driver", error);
  if (!error) return clean_name(target.filename().string());
  // A test's tree may hold it as text.
  return clean_name(read_kernel_file(folder / "driver"));
}

// "Model: 		 NVIDIA A100-SXM4-80GB" in driver/nvidia/gpus/0000:3b:00.0/information, "NVRM version: NVIDIA
// UNIX x86_64 Kernel Module  535.129.03  Thu …" in driver/nvidia/version.
void add_nvidia_proc(const fs::path& proc, DeviceInfo& device) {
  const std::string text = read_kernel_file(proc / "driver/nvidia/gpus" / device.pci / "information");
  const std::string_view model = value_after(text, "Model:"), uuid = value_after(text, "GPU UUID:");
  if (!model.empty()) device.name = clean_name(model);
  if (uuid.starts_with("GPU-")) device.uuid = clean_name(uuid);
  const std::string version = read_kernel_file(proc / "driver/nvidia/version");
  for (const std::string_view word : split_words(std::string_view(version).substr(0, version.find('\n')))) {
    if (word.find('.') != std::string_view::npos && word.find_first_not_of("0123456789.") == std::string_view::npos) {
      device.driver = clean_name(word);
      break;
    }
  }
}

DeviceInfo read_device(const HostRoots& roots, const fs::path& folder, const Vendor& vendor) {
  DeviceInfo device{.kind = vendor.kind,
                    .vendor = vendor.name,
                    .pci = normal_pci_address(folder.filename().string()),
                    .driver = driver_of(folder),
                    .source = "sysfs"};
  device.name = clean_name(read_kernel_file(folder / "product_name"));  // amdgpu, of some boards
  const auto number = read_hex(folder / "device");
  if (device.name.empty()) device.name = fmt::format("{} {:04x}", vendor.name, number.value_or(0));
  const std::string node = read_kernel_file(folder / "numa_node");
  device.numa_node = small_index(trimmed(node));  // -1: the machine has no nodes
  if (device.driver.empty()) {
    device.state = DeviceState::kNoDriver;
    device.message = "no driver of the kernel has it";
    return device;
  }
  if (device.driver == "vfio-pci") {
    device.state = DeviceState::kNoDriver;
    device.message = "it is given to a virtual machine (vfio-pci)";
    return device;
  }
  add_driver_memory(folder, device);
  if (device.kind == DeviceKind::kCuda) add_nvidia_proc(roots.proc, device);
  return device;
}

}  // namespace

Devices read_pci_devices(const HostRoots& roots) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (auto entry = fs::directory_iterator(roots.sys / "bus/pci/devices", error);
       !error && entry != fs::directory_iterator() && folders.size() < kFunctionsMax; entry.increment(error)) {
    if (!normal_pci_address(entry->path().filename().string()).empty()) folders.push_back(entry->path());
  }
  std::ranges::sort(folders);
  Devices devices;
  std::map<DeviceKind, int32_t> counts;
  for (const fs::path& folder : folders) {
    const auto id = read_hex(folder / "vendor"), code = read_hex(folder / "class");
    if (!id || !code) continue;
    const auto* vendor = std::ranges::find(kVendors, *id, &Vendor::id);
    if (vendor == std::end(kVendors) || (vendor->classes & class_bit(*code)) == 0) continue;
    devices.push_back(read_device(roots, folder, *vendor));
    devices.back().index = counts[vendor->kind]++;
  }
  return devices;
}

}  // namespace quern
