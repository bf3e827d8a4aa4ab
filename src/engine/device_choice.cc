#include "engine/device_choice.h"

#include <algorithm>
#include <cctype>

#include "base/status.h"

namespace quern {
namespace {

struct Hardware {
  std::string_view name;
  std::string_view words;
};
constexpr Hardware kAbsent[] = {
    {"cuda", "CUDA"}, {"gpu", "GPU"}, {"rocm", "ROCm"}, {"metal", "Metal"}, {"mps", "Metal"}, {"vulkan", "Vulkan"},
};

// "cuda" or "cuda:0".
bool names(std::string_view text, std::string_view hardware) {
  if (!text.starts_with(hardware)) return false;
  text.remove_prefix(hardware.size());
  if (text.empty()) return true;
  constexpr size_t kDigitsMax = 3;
  return text[0] == ':' && text.size() > 1 && text.size() <= 1 + kDigitsMax &&
         std::ranges::all_of(text.substr(1), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

Status check_device_name(std::string_view name) {
  if (name == "reference" || name == "auto" || name == "cpu") return {};
  for (const Hardware& hardware : kAbsent) {
    if (!names(name, hardware.name)) continue;
    return unsupported(fmt::format("device: '{}': this build has no {} device; auto and cpu run on this machine", name,
                                   hardware.words));
  }
  return invalid_argument(fmt::format("device: '{}' is not one of auto, cpu, reference", name));
}

Result<std::unique_ptr<Device>> make_device(std::string_view name, int32_t num_threads) {
  QUERN_TRY(check_device_name(name));
  if (name == "reference") return make_reference_device();
  return make_cpu_device({.num_threads = num_threads});
}

}  // namespace quern
