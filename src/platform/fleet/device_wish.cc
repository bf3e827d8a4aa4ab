#include "platform/fleet/device_wish.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "hardware/inventory/placement.h"

namespace quern {
namespace {

constexpr double kEngineFraction = 0.9;  // vLLM's default; SGLang's depends on the device, and is near it

bool is_device_number(std::string_view text) {
  return !text.empty() && text.size() <= 3 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view kind_of_id(std::string_view id) {
  return id.substr(0, id.find(':'));
}

int32_t option_of(const LaunchSpec& spec, const char* name) {
  const auto it = spec.engine_options.find(name);
  int32_t value = 1;
  if (it != spec.engine_options.end()) {
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
  }
  return std::clamp(value, 1, 64);
}

bool is_usable_state(std::string_view state) {
  return state == device_state_name(DeviceState::kOk) || state == device_state_name(DeviceState::kNoTool);
}

}  // namespace

std::vector<std::string> device_ids(std::string_view device) {
  const size_t colon = device.find(':');
  std::vector<std::string> ids;
  for (size_t begin = colon; begin < device.size();) {
    const size_t end = std::min(device.find(',', begin + 1), device.size());
    const std::string_view number = device.substr(begin + 1, end - begin - 1);
    if (!is_device_number(number)) return {};
    ids.push_back(std::string(device.substr(0, colon + 1)) + std::string(number));
    begin = end;
  }
  return ids;
}

std::string device_text(const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids) text += text.empty() ? id : "," + id.substr(id.find(':') + 1);
  return text;
}

std::vector<std::string> wished_devices(const LaunchSpec& spec, int32_t number) {
  std::vector<std::string> ids = device_ids(spec.device);
  const size_t share = spec.replicas < 2 ? 0 : ids.size() / static_cast<size_t>(spec.replicas);
  if (share == 0) return ids;
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(share * static_cast<size_t>(number % spec.replicas));
  return {first, first + static_cast<std::ptrdiff_t>(share)};
}

std::vector<std::string> free_device_kinds(const LaunchSpec& spec) {
  std::vector<std::string> kinds;
  if (spec.device != "auto" || (spec.engine != "vllm" && spec.engine != "sglang")) return kinds;
  for (const DeviceKind kind : engine_device_kinds(spec.engine)) {
    if (kind != DeviceKind::kCpu) kinds.emplace_back(device_kind_name(kind));
  }
  return kinds;
}

int32_t devices_of_one_replica(const LaunchSpec& spec) {
  const int32_t tensor = std::max(option_of(spec, "tensor_parallel_size"), option_of(spec, "tp_size"));
  const int32_t pipeline = std::max(option_of(spec, "pipeline_parallel_size"), option_of(spec, "pp_size"));
  return std::min(tensor * pipeline, 64);
}

double device_fraction(const LaunchSpec& spec) {
  const bool is_vllm = spec.engine == "vllm";
  if (!is_vllm && spec.engine != "sglang") return 0;
  const auto it = spec.engine_options.find(is_vllm ? "gpu_memory_utilization" : "mem_fraction_static");
  const double value = it == spec.engine_options.end() ? 0 : std::strtod(it->second.c_str(), nullptr);
  return value > 0 && value <= 1 ? value : kEngineFraction;
}

bool is_listed(const DeviceInfo& device, std::string_view list) {
  const std::string number = std::to_string(device.index);
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string_view word = list.substr(begin, end - begin);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    // Of a UUID its beginning is enough.
    if (word == number || (word.size() > number.size() + 3 && device.uuid.starts_with(word))) return true;
    begin = end + 1;
  }
  return false;
}

bool must_be_named(const DeviceInfo& device) {
  if (device.state == DeviceState::kNoTool) return true;
  const std::string variable = visibility_of(device).first;
  const char* list = variable.empty() ? nullptr : std::getenv(variable.c_str());  // an empty one lists none
  return list != nullptr && !is_listed(device, list);
}

std::vector<DeviceMemory> device_memories(const Inventory& inventory) {
  std::vector<DeviceMemory> found;
  for (const DeviceInfo& device : inventory.devices) {
    if (device.shares_system_memory || !is_usable_state(device_state_name(device.state))) continue;
    found.push_back({device.id(), device.memory_total_bytes, device.memory_free_bytes, must_be_named(device)});
  }
  return found;
}

std::vector<DeviceMemory> device_memories(const Json& devices) {
  std::vector<DeviceMemory> found;
  const auto bytes = [](const Json& device, const char* key) -> std::optional<int64_t> {
    const auto it = device.find(key);
    if (it == device.end() || !it->is_number_integer()) return std::nullopt;
    return std::clamp<int64_t>(it->get<int64_t>(), 0, int64_t{1} << 50);
  };
  for (const Json& device : devices) {
    const auto id = device.find("id");
    const bool named =
        id != device.end() && id->is_string() && device_ids(id->get_ref<const std::string&>()).size() == 1;
    const auto shares = device.find("shares_system_memory");
    const auto state = device.find("state");
    const bool usable =
        state == device.end() || (state->is_string() && is_usable_state(state->get_ref<const std::string&>()));
    if (!named || !usable || (shares != device.end() && *shares == true)) continue;
    const auto named_alone = device.find("must_be_named");
    const bool must_be_named = (named_alone != device.end() && *named_alone == true) ||
                               (state != device.end() && *state == device_state_name(DeviceState::kNoTool));
    found.push_back(
        {id->get<std::string>(), bytes(device, "memory_total"), bytes(device, "memory_free"), must_be_named});
  }
  return found;
}

bool may_have_device(const std::vector<DeviceMemory>& devices, std::string_view id) {
  const auto same = [&](const DeviceMemory& one) { return one.id == id; };
  const auto alike = [&](const DeviceMemory& one) { return kind_of_id(one.id) == kind_of_id(id); };
  return std::ranges::any_of(devices, same) || std::ranges::none_of(devices, alike);
}

std::pair<std::string, std::string> visibility_of(const std::vector<std::string>& ids) {
  std::pair<std::string, std::string> all;
  for (const std::string& id : ids) {
    const auto name = parse_device_name(id);
    if (!name || !name->index) return {};
    DeviceInfo device;
    device.kind = name->kind;
    device.index = *name->index;
    const auto one = visibility_of(device);
    all.first = one.first;
    all.second += (all.second.empty() ? "" : ",") + one.second;
  }
  return all;
}

}  // namespace quern
