// Tools that print for people: csv, and tables of two lines a device.
#include <algorithm>

#include "base/status.h"
#include "hardware/inventory/tool_parsers.h"
#include "hardware/inventory/tool_text.h"

namespace quern {
namespace {

bool says_no_device(std::string_view text) {
  std::string lower(text.substr(0, 4096));
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower.find("no device") != std::string::npos || lower.find("no gpu") != std::string::npos ||
         lower.find("no supported device") != std::string::npos;
}

// A table without a device: fine when it is one, or says so.
Result<Devices> checked(Devices devices, std::string_view text, std::string_view tool) {
  if (devices.size() > kToolDevicesMax) return unreadable_output(tool, "too many devices");
  if (devices.empty() && !says_no_device(text))
    return unreadable_output(tool, "no device, and no word that there is none");
  return devices;
}

// "4152 / 65536", "666/65536 MiB", "0 MiB/ 42396 MiB".
void add_used_of_total(std::string_view used, std::string_view total, DeviceInfo& device) {
  const auto total_bytes = memory_bytes(total, kMiB), used_bytes = memory_bytes(used, kMiB);
  if (!total_bytes || *total_bytes == 0) return;
  device.memory_total_bytes = total_bytes;
  if (used_bytes) device.memory_free_bytes = std::max<int64_t>(0, *total_bytes - *used_bytes);
}
void add_used_of_total(std::string_view pair, DeviceInfo& device) {
  const size_t slash = pair.find('/');
  if (slash != std::string_view::npos) add_used_of_total(pair.substr(0, slash), pair.substr(slash + 1), device);
}

const std::string_view* pci_cell(const std::vector<std::string_view>& cells) {
  const auto found =
      std::ranges::find_if(cells, [](std::string_view cell) { return !normal_pci_address(cell).empty(); });
  return found == cells.end() ? nullptr : &*found;
}

bool is_known(std::string_view value) {
  return !value.empty() && value.front() != '[' && value != "N/A";
}

// One row of a csv, by heading: "memory.total [MiB]" is found as "memory.total".
class CsvRow {
 public:
  CsvRow(const std::vector<std::string_view>& headings, std::string_view line) : headings_(headings) {
    for (size_t i = 0; i + 1 < headings.size(); ++i) {
      const size_t comma = line.find(',');
      values_.push_back(trimmed(line.substr(0, comma)));
      line = comma == std::string_view::npos ? std::string_view() : line.substr(comma + 1);
    }
    values_.push_back(trimmed(line));
  }
  // Empty: no such column, or a value like "[N/A]".
  std::string_view operator[](std::string_view heading) const {
    for (size_t i = 0; i < headings_.size(); ++i) {
      if (headings_[i].substr(0, headings_[i].find(' ')) == heading) return is_known(values_[i]) ? values_[i] : "";
    }
    return "";
  }

 private:
  const std::vector<std::string_view>& headings_;
  std::vector<std::string_view> values_;
};

DeviceInfo device_of(const CsvRow& row, DeviceKind kind, int32_t index, std::string_view tool) {
  DeviceInfo device{.kind = kind,
                    .index = index,
                    .vendor = kind == DeviceKind::kCuda ? "NVIDIA" : "Iluvatar",
                    .name = clean_name(row["name"]),
                    .pci = normal_pci_address(row["pci.bus_id"]),
                    .uuid = clean_name(row["uuid"]),
                    .driver = clean_name(row["driver_version"]),
                    .load = load_of_percent(row["utilization.gpu"]),
                    .source = std::string(tool)};
  device.memory_total_bytes = memory_bytes(row["memory.total"], kMiB);
  device.memory_free_bytes = memory_bytes(row["memory.free"], kMiB);
  if (!device.memory_free_bytes) add_used_of_total(row["memory.used"], row["memory.total"], device);
  return device;
}

}  // namespace

Result<Devices> parse_query_csv(std::string_view text, DeviceKind kind, std::string_view tool) {
  if (says_no_device(text)) return Devices();
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.empty()) return unreadable_output(tool, "it is empty");
  const std::vector<std::string_view> headings = split_fields(lines[0], ',');
  if (std::ranges::find(headings, "index") == headings.end() || std::ranges::find(headings, "name") == headings.end()) {
    return unreadable_output(tool, "the first line names no index and name");
  }
  Devices devices;
  for (size_t i = 1; i < lines.size() && devices.size() <= kToolDevicesMax; ++i) {
    if (trimmed(lines[i]).empty()) continue;
    const CsvRow row(headings, lines[i]);
    const auto index = small_index(row["index"]);
    if (!index) return unreadable_output(tool, fmt::format("line {} begins with no index", i + 1));
    devices.push_back(device_of(row, kind, *index, tool));
  }
  if (devices.size() > kToolDevicesMax) return unreadable_output(tool, "too many devices");
  return devices;
}

// | 0     910B3   | OK            | 90.6  37                    0    / 0     |
// | 0             | 0000:C1:00.0  | 0     0    / 0          4152 / 65536     |
// The devices are counted: programs know them by that number, while the first column may be the host's.
Result<Devices> parse_npu_smi(std::string_view text) {
  Devices devices;
  std::string_view name, health;
  for (const auto& cells : table_rows(text)) {
    if (cells.size() < 3) continue;
    if (cells[1].starts_with("Process")) break;  // the second table
    if (normal_pci_address(cells[1]).empty()) {
      const auto words = split_words(cells[0]);
      if (words.size() == 2 && small_index(words[0])) std::tie(name, health) = std::tie(words[1], cells[1]);
      continue;
    }
    if (name.empty()) return unreadable_output("npu-smi", "a chip without the line before it");
    DeviceInfo device{.kind = DeviceKind::kNpu,
                      .index = static_cast<int32_t>(devices.size()),
                      .vendor = "Huawei",
                      .name = clean_name(name),
                      .pci = normal_pci_address(cells[1]),
                      .driver = clean_name(value_after(text, "Version:")),
                      .source = "npu-smi"};
    if (!device.name.starts_with("Ascend")) device.name = "Ascend " + device.name;
    const auto words = split_words(cells[2]);
    if (!words.empty()) device.load = load_of_percent(words[0]);
    // Pairs "used / total" of the processor's own memory and of its HBM; the one that it has is not 0.
    for (std::string_view rest = cells[2]; rest.find('/') != std::string_view::npos;) {
      const size_t slash = rest.find('/');
      const auto before = split_words(rest.substr(0, slash)), after = split_words(rest.substr(slash + 1));
      if (before.empty() || after.empty()) break;
      add_used_of_total(before.back(), after.front(), device);
      rest.remove_prefix(slash + 1);
    }
    if (health != "OK") {
      device.state = DeviceState::kUnhealthy;
      device.message = fmt::format("npu-smi: health {}", clean_name(health));
    }
    devices.push_back(std::move(device));
  }
  return checked(std::move(devices), text, "npu-smi");
}

// | 0     /   MLU370-X8    v1.1.6 |         0000:4F:00.0 | 0%                  0 |
// |  0%   33C        56 W/ 250 W  |     0 MiB/ 42396 MiB | FULL          Default |
// Until version 5 the second column was "On  v4.20.11": no address, and the driver.
Result<Devices> parse_cnmon(std::string_view text) {
  Devices devices;
  bool is_second = false;
  for (const auto& cells : table_rows(text)) {
    if (cells.size() < 3 || cells[0].starts_with("Card") || cells[0].starts_with("Fan")) continue;
    const auto words = split_words(cells[0]);
    if (is_second) {
      add_used_of_total(cells[1], devices.back());
      is_second = false;
      continue;
    }
    if (words.size() < 3 || !small_index(words[0])) continue;
    DeviceInfo device{.kind = DeviceKind::kMlu,
                      .index = *small_index(words[0]),
                      .vendor = "Cambricon",
                      .name = clean_name(words[2]),
                      .pci = normal_pci_address(cells[1]),
                      .driver = clean_name(value_after(text, "Driver v")),
                      .load = load_of_percent(cells[2]),
                      .source = "cnmon"};
    const auto second = split_words(cells[1]);
    if (device.pci.empty() && !second.empty() && second.back().starts_with('v'))
      device.driver = clean_name(second.back().substr(1));
    devices.push_back(std::move(device));
    is_second = true;
  }
  return checked(std::move(devices), text, "cnmon");
}

// 0    MTT S4000      |00000000:3b:00.0    |0%    0MiB(49152MiB)
Result<Devices> parse_mthreads_gmi(std::string_view text) {
  Devices devices;
  for (const std::string_view line : split_lines(text)) {
    const auto cells = split_fields(line, '|');
    if (cells.size() != 3 || normal_pci_address(cells[1]).empty()) continue;
    const auto words = split_wide(cells[0]), values = split_words(cells[2]);
    if (words.size() < 2 || !small_index(words[0])) continue;
    DeviceInfo device{.kind = DeviceKind::kMusa,
                      .index = *small_index(words[0]),
                      .vendor = "Moore Threads",
                      .name = clean_name(words[1]),
                      .pci = normal_pci_address(cells[1]),
                      .source = "mthreads-gmi"};
    const std::string_view driver = value_after(text, "Driver Version:");
    if (is_known(driver)) device.driver = clean_name(driver);
    if (!values.empty()) device.load = load_of_percent(values[0]);
    const size_t open = cells[2].find('(');
    if (values.size() > 1 && open != std::string_view::npos)
      add_used_of_total(values[1], cells[2].substr(open + 1), device);
    devices.push_back(std::move(device));
  }
  return checked(std::move(devices), text, "mthreads-gmi");
}

// | 0       MetaX N260             Off | 0000:01:00.0        | 0%            Native |
// | 37C     29W / 225W              P0 | 666/65536 MiB       | Available            |
// Newer ones have a column for the board before the address.
Result<Devices> parse_mx_smi(std::string_view text) {
  Devices devices;
  bool is_second = false;
  for (const auto& cells : table_rows(text)) {
    if (is_second) {
      const auto memory = std::ranges::find_if(cells, [](std::string_view cell) { return cell.ends_with("MiB"); });
      if (memory == cells.end()) continue;
      add_used_of_total(*memory, devices.back());
      if (memory + 1 != cells.end() && !(memory + 1)->starts_with("Available") && !(memory + 1)->empty()) {
        devices.back().state = DeviceState::kUnhealthy;
        devices.back().message = fmt::format("mx-smi: state {}", clean_name(*(memory + 1)));
      }
      is_second = false;
      continue;
    }
    const std::string_view* address = pci_cell(cells);
    const auto words = split_wide(cells[0]);
    if (address == nullptr || address == cells.data() || words.size() < 2 || !small_index(words[0])) continue;
    DeviceInfo device{.kind = DeviceKind::kMaca,
                      .index = static_cast<int32_t>(devices.size()),
                      .vendor = "MetaX",
                      .name = clean_name(words[1]),
                      .pci = normal_pci_address(*address),
                      .driver = clean_name(value_after(text, "Driver Version:")),
                      .source = "mx-smi"};
    if (address + 1 != cells.data() + cells.size()) device.load = load_of_percent(*(address + 1));
    devices.push_back(std::move(device));
    is_second = true;
  }
  return checked(std::move(devices), text, "mx-smi");
}

}  // namespace quern
