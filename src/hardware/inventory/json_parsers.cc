// Tools that print JSON. Numbers may be numbers, texts or {"value": …, "unit": …}, as the version pleases.
#include <algorithm>

#include "base/json.h"
#include "base/status.h"
#include "hardware/inventory/tool_parsers.h"
#include "hardware/inventory/tool_text.h"

namespace quern {
namespace {

constexpr JsonLimits kLimits{.depth_max = 32, .bytes_max = 4u << 20};

// The JSON of an output that begins with warnings.
Result<Json> read_json(std::string_view text, std::string_view tool) {
  const size_t begin = text.find_first_of("{[");
  if (begin == std::string_view::npos) return unreadable_output(tool, "there is no JSON in it");
  auto json = parse_json(text.substr(begin), tool, kLimits);
  if (!json) return unreadable_output(tool, json.error().message);
  return json;
}

// What lies under these keys; null where something on the way is missing.
const Json& at(const Json& json, std::initializer_list<const char*> keys) {
  static const Json null;
  const Json* place = &json;
  for (const char* key : keys) {
    if (!place->is_object()) return null;
    const auto found = place->find(key);
    if (found == place->end()) return null;
    place = &*found;
  }
  return *place;
}

// A number, a text or {"value", "unit"}, as text with its unit.
std::string text_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number()) return fmt::format("{}", json.get<double>());
  if (!json.is_object()) return "";
  std::string value = text_of(at(json, {"value"}));
  const Json& unit = at(json, {"unit"});
  if (unit.is_string()) value += " " + unit.get<std::string>();
  return value;
}

std::string name_of(const Json& json) {
  const std::string name = json.is_string() ? clean_name(json.get_ref<const std::string&>()) : "";
  return name == "N/A" ? "" : name;
}

std::string address_of(const Json& json) {
  return json.is_string() ? normal_pci_address(json.get_ref<const std::string&>()) : "";
}

void add_memory(std::optional<int64_t> total, std::optional<int64_t> used, DeviceInfo& device) {
  if (total && *total > 0) device.memory_total_bytes = total;
  if (device.memory_total_bytes && used)
    device.memory_free_bytes = std::max<int64_t>(0, *device.memory_total_bytes - *used);
}

// A list of devices, bare or under a name.
const Json& list_of(const Json& json, const char* name) {
  return json.is_array() ? json : at(json, {name});
}

bool equal_words(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// The first field of these names, whatever their case.
const Json* field_of(const Json& card, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const auto& [key, value] : card.items()) {
      if (equal_words(key, name)) return &value;
    }
  }
  return nullptr;
}

std::string field_text(const Json& card, std::initializer_list<std::string_view> names) {
  const Json* field = field_of(card, names);
  return field == nullptr ? "" : text_of(*field);
}

std::optional<int64_t> rocm_memory(const Json& card, std::string_view name) {
  if (const auto bytes = memory_bytes(field_text(card, {fmt::format("{} (B)", name)}), 1)) return bytes;
  return memory_bytes(field_text(card, {fmt::format("{} (MiB)", name)}), kMiB);
}

DeviceInfo rocm_card(const Json& card, int32_t index, DeviceKind kind, std::string_view tool) {
  const bool is_dcu = field_of(card, {"DCU use (%)", "HCU use (%)"}) != nullptr;
  DeviceInfo device{.kind = is_dcu ? DeviceKind::kDcu : kind, .index = index, .source = std::string(tool)};
  device.vendor = device.kind == DeviceKind::kDcu ? "Hygon" : "AMD";
  device.name = clean_name(field_text(card, {"Card series", "Device Name", "Card model"}));
  device.pci = normal_pci_address(field_text(card, {"PCI Bus"}));
  device.load = load_of_percent(field_text(card, {"GPU use (%)", "DCU use (%)", "HCU use (%)"}));
  add_memory(rocm_memory(card, "VRAM Total Memory"), rocm_memory(card, "VRAM Total Used Memory"), device);
  return device;
}

}  // namespace

Result<Devices> parse_amd_smi(std::string_view static_json, std::string_view metric_json) {
  QUERN_ASSIGN(const Json fixed, read_json(static_json, "amd-smi"));
  QUERN_ASSIGN(const Json moving, read_json(metric_json, "amd-smi"));
  const Json& list = list_of(fixed, "gpu_data");
  if (!list.is_array() || list.size() > kToolDevicesMax) return unreadable_output("amd-smi", "no list gpu_data");
  Devices devices;
  for (const Json& gpu : list) {
    const auto index = small_index(text_of(at(gpu, {"gpu"})));
    if (!index) return unreadable_output("amd-smi", "a device without a number");
    DeviceInfo device{.kind = DeviceKind::kRocm,
                      .index = *index,
                      .vendor = "AMD",
                      .name = name_of(at(gpu, {"asic", "market_name"})),
                      .pci = address_of(at(gpu, {"bus", "bdf"})),
                      .driver = name_of(at(gpu, {"driver", "version"})),
                      .source = "amd-smi"};
    add_memory(memory_bytes(text_of(at(gpu, {"vram", "size"})), kMiB), std::nullopt, device);
    devices.push_back(std::move(device));
  }
  const Json& samples = list_of(moving, "gpu_data");
  if (!samples.is_array()) return unreadable_output("amd-smi", "no list gpu_data");
  for (const Json& gpu : samples) {
    const auto index = small_index(text_of(at(gpu, {"gpu"})));
    const auto device = std::ranges::find_if(devices, [&](const DeviceInfo& d) { return index && d.index == *index; });
    if (device == devices.end()) continue;
    device->load = load_of_percent(text_of(at(gpu, {"usage", "gfx_activity"})));
    add_memory(memory_bytes(text_of(at(gpu, {"mem_usage", "total_vram"})), kMiB),
               memory_bytes(text_of(at(gpu, {"mem_usage", "used_vram"})), kMiB), *device);
  }
  return devices;
}

Result<Devices> parse_rocm_smi(std::string_view json, DeviceKind kind, std::string_view tool) {
  QUERN_ASSIGN(const Json root, read_json(json, tool));
  if (!root.is_object()) return unreadable_output(tool, "it is no object");
  Devices devices;
  std::string driver;
  for (const auto& [key, value] : root.items()) {
    if (!value.is_object()) continue;
    if (key == "system") driver = clean_name(field_text(value, {"Driver version"}));
    if (!key.starts_with("card") || devices.size() == kToolDevicesMax) continue;
    const auto index = small_index(std::string_view(key).substr(4));
    if (index) devices.push_back(rocm_card(value, *index, kind, tool));
  }
  if (devices.empty() && root.size() > 1) return unreadable_output(tool, "no card in it");
  for (DeviceInfo& device : devices) device.driver = driver;
  return devices;
}

Result<Devices> parse_xpu_discovery(std::string_view json) {
  QUERN_ASSIGN(const Json root, read_json(json, "xpu-smi"));
  const Json& list = list_of(root, "device_list");
  if (!list.is_array() || list.size() > kToolDevicesMax) return unreadable_output("xpu-smi", "no list device_list");
  Devices devices;
  for (const Json& gpu : list) {
    const Json& type = at(gpu, {"device_type"});
    if (type.is_string() && type != "GPU") continue;
    if (at(gpu, {"device_function_type"}) == "virtual") continue;
    const auto index = small_index(text_of(at(gpu, {"device_id"})));
    if (!index) return unreadable_output("xpu-smi", "a device without device_id");
    devices.push_back({.kind = DeviceKind::kXpu,
                       .index = *index,
                       .vendor = "Intel",
                       .name = name_of(at(gpu, {"device_name"})),
                       .pci = address_of(at(gpu, {"pci_bdf_address"})),
                       .uuid = name_of(at(gpu, {"uuid"})),
                       .source = "xpu-smi"});
    add_memory(memory_bytes(text_of(at(gpu, {"memory_physical_size_byte"})), 1), std::nullopt, devices.back());
  }
  return devices;
}

Status add_xpu_details(std::string_view json, DeviceInfo& device) {
  QUERN_ASSIGN(const Json root, read_json(json, "xpu-smi"));
  device.driver = name_of(at(root, {"driver_version"}));
  add_memory(memory_bytes(text_of(at(root, {"memory_physical_size_byte"})), 1), std::nullopt, device);
  return {};
}

Status add_xpu_stats(std::string_view json, DeviceInfo& device) {
  QUERN_ASSIGN(const Json root, read_json(json, "xpu-smi"));
  const auto read = [&](const Json& metrics, std::optional<int64_t>& used) {
    if (!metrics.is_array()) return;
    for (const Json& metric : metrics) {
      const Json& type = at(metric, {"metrics_type"});
      const std::string value = text_of(at(metric, {"value"}));
      if (type == "XPUM_STATS_GPU_UTILIZATION") device.load = load_of_percent(value);
      const auto bytes = memory_bytes(value, kMiB);
      if (type == "XPUM_STATS_MEMORY_USED" && bytes) used = used.value_or(0) + *bytes;
    }
  };
  // Of a device of several tiles the memory stands with these alone, the load with the device.
  std::optional<int64_t> of_tiles, used;
  const Json& tiles = at(root, {"tile_level"});
  if (tiles.is_array()) {
    for (const Json& tile : tiles) read(at(tile, {"data_list"}), of_tiles);
  }
  read(at(root, {"device_level"}), used);
  if (!used) used = of_tiles;
  add_memory(std::nullopt, used, device);
  return {};
}

Result<Devices> parse_system_profiler(std::string_view json) {
  QUERN_ASSIGN(const Json root, read_json(json, "system_profiler"));
  const Json& list = at(root, {"SPDisplaysDataType"});
  if (!list.is_array() || list.size() > kToolDevicesMax)
    return unreadable_output("system_profiler", "no list SPDisplaysDataType");
  Devices devices;
  for (const Json& gpu : list) {
    const std::string metal = name_of(at(gpu, {"spdisplays_mtlgpufamilysupport"}));
    std::string name = name_of(at(gpu, {"sppci_model"}));
    if (name.empty()) name = name_of(at(gpu, {"_name"}));
    if (!name.starts_with("Apple")) continue;
    const std::string cores = text_of(at(gpu, {"sppci_cores"}));
    if (small_index(cores)) name += fmt::format(" ({} cores)", cores);
    devices.push_back({.kind = DeviceKind::kMetal,
                       .index = static_cast<int32_t>(devices.size()),
                       .vendor = "Apple",
                       .name = std::move(name),
                       .driver = metal.substr(metal.find('_') + 1),  // "spdisplays_metal3"
                       .source = "system_profiler"});
  }
  return devices;
}

void add_apple_memory(std::string_view sysctl, std::string_view vm_stat, Devices& devices) {
  const auto total = memory_bytes(value_after(sysctl, "hw.memsize:"), 1);
  const auto page = memory_bytes(value_after(vm_stat, "page size of"), 1);
  std::optional<int64_t> pages;
  for (const char* label : {"Pages free:", "Pages inactive:", "Pages speculative:"}) {
    const auto count = memory_bytes(value_after(vm_stat, label), 1);
    if (count) pages = pages.value_or(0) + *count;
  }
  for (DeviceInfo& device : devices) {
    device.shares_system_memory = true;
    device.memory_total_bytes = total;
    // Never more than there is, which also keeps the product in bounds.
    if (total && page && pages && *page > 0) device.memory_free_bytes = std::min(*pages, *total / *page) * *page;
  }
}

}  // namespace quern
