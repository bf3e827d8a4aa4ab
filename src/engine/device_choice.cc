#include "engine/device_choice.h"

#include "base/status.h"

namespace quern {

Result<std::unique_ptr<Device>> make_device(std::string_view name, int32_t num_threads) {
  if (name == "reference") return make_reference_device();
  if (name == "auto" || name == "cpu") return make_cpu_device({.num_threads = num_threads});
  return invalid_argument(fmt::format("device: '{}' is not one of auto, cpu, reference", name));
}

}  // namespace quern
