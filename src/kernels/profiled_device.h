// A device that measures another: every operation goes to it unchanged and is entered in an OpProfile.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/op_profile.h"

namespace quern {

// `profile` must outlive the device.
std::unique_ptr<Device> make_profiled_device(std::unique_ptr<Device> device, OpProfile& profile);

}  // namespace quern
