// The words of `--device`, compute.device and a launch's `device`. The one place that reads them.
#pragma once

#include <optional>
#include <string_view>

#include "hardware/inventory/device.h"
#include "quern/status.h"

namespace quern {

struct DeviceName {
  enum class Wish : uint8_t {
    kAuto,       // whatever suits best
    kReference,  // our engine's plain loops
    kAnyGpu,     // "gpu": an accelerator of any kind
    kKind,       // `kind`, and of it `index`
  };
  Wish wish = Wish::kAuto;
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<int32_t> index;  // absent: any of the kind
};

// "auto", "cpu", "reference", "gpu", "cuda", "cuda:0", "rocm" or "hip", "xpu", "metal" or "mps", "vulkan", "npu" or
// "ascend", "dcu", "mlu", "musa", "maca", "iluvatar"; each but the first three may carry ":N", N of at most three
// digits. kInvalidArgument, "device: …", for everything else.
Result<DeviceName> parse_device_name(std::string_view text);

}  // namespace quern
