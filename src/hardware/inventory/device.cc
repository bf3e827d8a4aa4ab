#include "hardware/inventory/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace quern {
namespace {

struct KindWords {
  const char* name;
  const char* words;
};
constexpr KindWords kKinds[] = {
    {"cpu", "CPU"},           {"cuda", "CUDA"},     {"rocm", "ROCm"},   {"xpu", "Intel GPU"}, {"metal", "Metal"},
    {"npu", "Ascend"},        {"dcu", "DCU"},       {"mlu", "MLU"},     {"musa", "MUSA"},     {"maca", "MACA"},
    {"iluvatar", "Iluvatar"}, {"vulkan", "Vulkan"}, {"other", "other"},
};
static_assert(std::size(kKinds) == static_cast<size_t>(DeviceKind::kOther) + 1);

bool is_hex(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace

const char* device_kind_name(DeviceKind kind) {
  return kKinds[static_cast<size_t>(kind)].name;
}

const char* device_kind_words(DeviceKind kind) {
  return kKinds[static_cast<size_t>(kind)].words;
}

const char* device_state_name(DeviceState state) {
  switch (state) {
    case DeviceState::kOk: return "ok";
    case DeviceState::kUnhealthy: return "unhealthy";
    case DeviceState::kNoTool: return "no_tool";
    case DeviceState::kNoDriver: return "no_driver";
  }
  return "no_tool";
}

std::string DeviceInfo::id() const {
  if (kind == DeviceKind::kCpu) return "cpu";
  return fmt::format("{}:{}", device_kind_name(kind), index);
}

// DOMAIN:BUS:DEVICE.FUNCTION; NVIDIA's tool writes the domain with eight digits, others leave it out.
std::string normal_pci_address(std::string_view text) {
  constexpr size_t kTailSize = 7;  // "3b:00.0"
  if (text.size() < kTailSize || text.size() > kTailSize + 9) return "";
  const std::string_view tail = text.substr(text.size() - kTailSize);
  std::string_view domain = text.substr(0, text.size() - kTailSize);
  if (!is_hex(tail.substr(0, 2)) || tail[2] != ':' || !is_hex(tail.substr(3, 2)) || tail[5] != '.' ||
      !is_hex(tail.substr(6))) {
    return "";
  }
  if (!domain.empty()) {
    if (domain.back() != ':' || !is_hex(domain.substr(0, domain.size() - 1))) return "";
    domain.remove_suffix(1);
  }
  while (domain.size() > 4 && domain.front() == '0') domain.remove_prefix(1);
  std::string result = fmt::format("{:0>4}:{}", domain, tail);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace quern
