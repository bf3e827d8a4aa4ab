#include "hardware/inventory/placement.h"

#include <algorithm>

#include "base/status.h"

namespace quern {
namespace {

using Wish = DeviceName::Wish;

std::string wished_text(const DeviceName& name) {
  switch (name.wish) {
    case Wish::kAuto: return "auto";
    case Wish::kReference: return "reference";
    case Wish::kAnyGpu: return name.index ? fmt::format("gpu:{}", *name.index) : "gpu";
    case Wish::kKind: break;
  }
  const char* kind = device_kind_name(name.kind);
  return name.index ? fmt::format("{}:{}", kind, *name.index) : kind;
}

std::string kinds_text(const std::vector<DeviceKind>& kinds) {
  std::string text;
  for (const DeviceKind kind : kinds) text += (text.empty() ? "" : ", ") + std::string(device_kind_name(kind));
  return text;
}

// "vulkan" stands for any GPU that has a graphics driver.
bool is_of_kind(const DeviceInfo& device, DeviceKind kind) {
  using enum DeviceKind;
  return device.kind == kind || (kind == kVulkan && (device.kind == kCuda || device.kind == kRocm ||
                                                     device.kind == kXpu || device.kind == kMusa));
}

std::string reason_of_state(const DeviceInfo& device) {
  if (device.state == DeviceState::kOk || device.state == DeviceState::kNoTool) return "";
  return fmt::format("{}: {}", device.id(), device.message);
}

// Kinds in the order in which they are tried.
std::vector<DeviceKind> kinds_to_try(const PlacementRequest& request) {
  std::vector<DeviceKind> kinds = engine_device_kinds(request.engine);
  switch (request.device.wish) {
    case Wish::kAuto: break;
    case Wish::kReference: kinds = {DeviceKind::kCpu}; break;
    case Wish::kAnyGpu: std::erase(kinds, DeviceKind::kCpu); break;
    case Wish::kKind: std::erase_if(kinds, [&](DeviceKind kind) { return kind != request.device.kind; });
  }
  return kinds;
}

std::string ids_text(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (const DeviceInfo& device : devices) text += (text.empty() ? "" : ", ") + device.id();
  return text;
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

// The one with the most room; those whose memory is not known last.
const DeviceInfo* roomiest(const std::vector<const DeviceInfo*>& devices, int64_t bytes_needed) {
  const DeviceInfo* best = nullptr;
  for (const DeviceInfo* device : devices) {
    const int64_t free = device->memory_free_bytes.value_or(-1);
    if (free >= 0 && free < bytes_needed) continue;
    if (best == nullptr || free > best->memory_free_bytes.value_or(-1)) best = device;
  }
  return best;
}

// Why none of the candidates does.
Error refusal(const PlacementRequest& request, const std::vector<DeviceInfo>& all,
              const std::vector<const DeviceInfo*>& usable, const std::string& state_reason) {
  const std::string name = wished_text(request.device);
  if (!usable.empty()) {
    std::string free;
    for (const DeviceInfo* device : usable) {
      free +=
          fmt::format("{}{} {}", free.empty() ? "" : ", ", device->id(), gib(device->memory_free_bytes.value_or(0)));
    }
    return {ErrorCode::kResourceExhausted,
            fmt::format("device: '{}': {} are needed, free are: {}", name, gib(request.bytes_needed), free)};
  }
  if (!state_reason.empty()) {
    return {ErrorCode::kUnavailable, fmt::format("device: '{}': {}", name, state_reason)};
  }
  return {ErrorCode::kNotFound, fmt::format("device: '{}': this machine has none; it has {}", name, ids_text(all))};
}

}  // namespace

// vLLM and SGLang reach the kinds beyond their own lists by their vendors' plugins (vllm-ascend, vllm-mlu, vllm-musa,
// vllm-metax …). Of llama.cpp: GGML_CUDA, _HIP, _MUSA, _CANN, _SYCL, _METAL, and Vulkan for any GPU with a driver.
std::vector<DeviceKind> engine_device_kinds(std::string_view engine) {
  using enum DeviceKind;
  if (engine == "quern") return {kCpu};
  if (engine == "vllm") return {kCuda, kRocm, kXpu, kNpu, kDcu, kMlu, kMusa, kMaca, kIluvatar, kCpu};
  if (engine == "sglang") return {kCuda, kRocm, kXpu, kNpu, kMusa, kCpu};
  if (engine == "llama.cpp") return {kCuda, kRocm, kMetal, kMusa, kNpu, kXpu, kVulkan, kCpu};
  return {};
}

std::vector<DeviceFit> fit_devices(const Inventory& inventory, std::string_view engine) {
  const std::vector<DeviceKind> kinds = engine_device_kinds(engine);
  std::vector<DeviceFit> fits = {{.device = inventory.cpu_device()}};
  for (const DeviceInfo& device : inventory.devices) fits.push_back({.device = device});
  for (DeviceFit& fit : fits) {
    const bool runs = std::ranges::any_of(kinds, [&](DeviceKind kind) { return is_of_kind(fit.device, kind); });
    if (kinds.empty()) {
      fit.reason = fmt::format("engine {} computes on no device of this machine", engine);
    } else if (!runs) {
      fit.reason = fmt::format("engine {} computes on {}", engine, kinds_text(kinds));
    } else {
      fit.reason = reason_of_state(fit.device);
    }
  }
  return fits;
}

Result<DeviceInfo> place(const Inventory& inventory, const PlacementRequest& request) {
  const std::vector<DeviceKind> kinds = kinds_to_try(request);
  if (kinds.empty()) {
    const auto all = engine_device_kinds(request.engine);
    return unsupported(fmt::format("device: '{}': engine {} computes on {}", wished_text(request.device),
                                   request.engine, all.empty() ? "no device of this machine" : kinds_text(all)));
  }
  std::vector<DeviceInfo> devices = {inventory.cpu_device()};
  devices.insert(devices.end(), inventory.devices.begin(), inventory.devices.end());
  std::vector<const DeviceInfo*> all_usable;
  std::string state_reason;
  for (const DeviceKind kind : kinds) {
    std::vector<const DeviceInfo*> usable;
    for (const DeviceInfo& device : devices) {
      if (!is_of_kind(device, kind) || (request.device.index && device.index != *request.device.index)) continue;
      // A display adapter of the processor is such a device: somebody has to ask for it.
      if (request.device.wish == Wish::kAuto && device.state == DeviceState::kNoTool) continue;
      const std::string reason = reason_of_state(device);
      if (reason.empty()) {
        usable.push_back(&device);
      } else if (state_reason.empty()) {
        state_reason = reason;
      }
    }
    if (const DeviceInfo* best = roomiest(usable, request.bytes_needed)) return *best;
    all_usable.insert(all_usable.end(), usable.begin(), usable.end());
  }
  return std::unexpected(refusal(request, devices, all_usable, state_reason));
}

std::pair<std::string, std::string> visibility_of(const DeviceInfo& device) {
  using enum DeviceKind;
  const std::string index = std::to_string(device.index);
  switch (device.kind) {
    // CUDA counts by speed, its tools by address; the UUID is the same to both.
    case kCuda:
    case kIluvatar: return {"CUDA_VISIBLE_DEVICES", device.uuid.empty() ? index : device.uuid};
    case kMaca: return {"CUDA_VISIBLE_DEVICES", index};
    case kRocm:
    case kDcu: return {"HIP_VISIBLE_DEVICES", index};
    case kXpu: return {"ZE_AFFINITY_MASK", index};
    case kNpu: return {"ASCEND_RT_VISIBLE_DEVICES", index};
    case kMlu: return {"MLU_VISIBLE_DEVICES", index};
    case kMusa: return {"MUSA_VISIBLE_DEVICES", index};
    case kCpu:
    case kMetal:
    case kVulkan:
    case kOther: break;
  }
  return {};
}

}  // namespace quern
