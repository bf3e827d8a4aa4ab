#include "hardware/inventory/device_name.h"

#include <charconv>

#include "base/status.h"

namespace quern {
namespace {

using Wish = DeviceName::Wish;

struct Word {
  std::string_view text;
  DeviceName name;
  bool has_index = true;
};
constexpr Word kWords[] = {
    {"auto", {Wish::kAuto}, false},
    {"cpu", {Wish::kKind, DeviceKind::kCpu}, false},
    {"reference", {Wish::kReference}, false},
    {"gpu", {Wish::kAnyGpu}},
    {"cuda", {Wish::kKind, DeviceKind::kCuda}},
    {"rocm", {Wish::kKind, DeviceKind::kRocm}},
    {"hip", {Wish::kKind, DeviceKind::kRocm}},
    {"xpu", {Wish::kKind, DeviceKind::kXpu}},
    {"metal", {Wish::kKind, DeviceKind::kMetal}},
    {"mps", {Wish::kKind, DeviceKind::kMetal}},
    {"vulkan", {Wish::kKind, DeviceKind::kVulkan}},
    {"npu", {Wish::kKind, DeviceKind::kNpu}},
    {"ascend", {Wish::kKind, DeviceKind::kNpu}},
    {"dcu", {Wish::kKind, DeviceKind::kDcu}},
    {"mlu", {Wish::kKind, DeviceKind::kMlu}},
    {"musa", {Wish::kKind, DeviceKind::kMusa}},
    {"maca", {Wish::kKind, DeviceKind::kMaca}},
    {"iluvatar", {Wish::kKind, DeviceKind::kIluvatar}},
};

// Of ":12"; nullopt for what is no index.
std::optional<int32_t> read_index(std::string_view text) {
  constexpr size_t kDigitsMax = 3;
  if (text.size() < 2 || text.size() > 1 + kDigitsMax || text[0] != ':') return std::nullopt;
  int32_t index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, index);
  if (error != std::errc() || stop != end || index < 0) return std::nullopt;
  return index;
}

}  // namespace

Result<DeviceName> parse_device_name(std::string_view text) {
  for (const Word& word : kWords) {
    if (!text.starts_with(word.text)) continue;
    DeviceName name = word.name;
    const std::string_view rest = text.substr(word.text.size());
    if (rest.empty()) return name;
    name.index = word.has_index ? read_index(rest) : std::nullopt;
    if (name.index) return name;
  }
  return invalid_argument(fmt::format(
      "device: '{}' is not one of auto, cpu, reference, nor a kind of device with or without an index: cuda, cuda:0, "
      "rocm, xpu, metal, vulkan, npu, dcu, mlu, musa, maca, iluvatar, gpu",
      text));
}

}  // namespace quern
