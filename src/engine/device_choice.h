// Which device a name stands for.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/device.h"
#include "quern/status.h"

namespace quern {

// "auto" (the fastest this build has), "cpu", "reference". num_threads 0: physical cores this process may use.
// Errors: those of check_device_name().
Result<std::unique_ptr<Device>> make_device(std::string_view name, int32_t num_threads);

// Whether make_device() knows the name, before anything is opened. kUnsupported with the reason for hardware that this
// build has no device for ("cuda:0", "metal", "vulkan:0"), kInvalidArgument for what names none.
Status check_device_name(std::string_view name);

}  // namespace quern
