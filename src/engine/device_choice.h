// Which device a name stands for.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/device.h"
#include "quern/status.h"

namespace quern {

// "auto" (the fastest this build has), "cpu", "reference". num_threads 0: physical cores this process may use.
// kInvalidArgument for another name.
Result<std::unique_ptr<Device>> make_device(std::string_view name, int32_t num_threads);

}  // namespace quern
