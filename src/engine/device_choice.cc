#include "engine/device_choice.h"

#include "base/status.h"
#include "hardware/inventory/device_name.h"

namespace quern {

Status check_device_name(std::string_view name) {
  QUERN_ASSIGN(const DeviceName parsed, parse_device_name(name));
  switch (parsed.wish) {
    case DeviceName::Wish::kAuto:
    case DeviceName::Wish::kReference: return {};
    case DeviceName::Wish::kAnyGpu: break;
    case DeviceName::Wish::kKind:
      if (parsed.kind == DeviceKind::kCpu) return {};
  }
  const char* words = parsed.wish == DeviceName::Wish::kAnyGpu ? "GPU" : device_kind_words(parsed.kind);
  return unsupported(
      fmt::format("device: '{}': this build has no {} device; auto and cpu run on this machine", name, words));
}

Result<std::unique_ptr<Device>> make_device(std::string_view name, int32_t num_threads) {
  QUERN_TRY(check_device_name(name));
  if (name == "reference") return make_reference_device();
  return make_cpu_device({.num_threads = num_threads});
}

}  // namespace quern
