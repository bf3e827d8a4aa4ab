#include "hardware/inventory/placement.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

DeviceInfo device(DeviceKind kind, int32_t index, std::optional<int64_t> free) {
  DeviceInfo result{.kind = kind, .index = index};
  result.memory_total_bytes = result.memory_free_bytes = free;
  return result;
}

Inventory mixed() {
  Inventory inventory;
  inventory.memory = {.total_bytes = 64 * kGiB, .available_bytes = 32 * kGiB};
  inventory.devices = {device(DeviceKind::kCuda, 0, 10 * kGiB), device(DeviceKind::kCuda, 1, 20 * kGiB),
                       device(DeviceKind::kRocm, 0, 40 * kGiB), device(DeviceKind::kOther, 0, std::nullopt)};
  return inventory;
}

Result<std::string> place_id(const Inventory& inventory, std::string_view engine, std::string_view name,
                             int64_t bytes = 0) {
  const auto parsed = parse_device_name(name);
  EXPECT_TRUE(parsed) << name;
  const auto placed = place(inventory, {.engine = engine, .device = *parsed, .bytes_needed = bytes});
  if (!placed) return std::unexpected(placed.error());
  return placed->id();
}

TEST(DeviceNames, AreReadInOnePlace) {
  const auto cuda = parse_device_name("cuda:12");
  ASSERT_TRUE(cuda);
  EXPECT_EQ(cuda->wish, DeviceName::Wish::kKind);
  EXPECT_EQ(cuda->kind, DeviceKind::kCuda);
  EXPECT_EQ(cuda->index, 12);
  EXPECT_EQ(parse_device_name("auto")->wish, DeviceName::Wish::kAuto);
  EXPECT_EQ(parse_device_name("gpu")->wish, DeviceName::Wish::kAnyGpu);
  EXPECT_EQ(parse_device_name("mps")->kind, DeviceKind::kMetal);
  EXPECT_EQ(parse_device_name("hip:0")->kind, DeviceKind::kRocm);
  EXPECT_EQ(parse_device_name("ascend:3")->kind, DeviceKind::kNpu);
  EXPECT_EQ(parse_device_name("vulkan:0")->kind, DeviceKind::kVulkan);
  EXPECT_FALSE(parse_device_name("metal")->index);
  for (const char* wrong : {"", "tpu", "cuda:", "cuda:x", "cuda:0000", "cuda:-1", "cuda: 1", "CUDA", "cpu:0", "auto:1",
                            "cuda:1:2", "cuda0", "cpus"}) {
    const auto result = parse_device_name(wrong);
    ASSERT_FALSE(result) << wrong;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(result.error().message.starts_with("device: '")) << result.error().message;
  }
}

TEST(Placement, OurEngineComputesOnTheCpu) {
  EXPECT_EQ(*place_id(mixed(), "quern", "auto"), "cpu");
  EXPECT_EQ(*place_id(mixed(), "quern", "cpu"), "cpu");
  EXPECT_EQ(*place_id(mixed(), "quern", "reference"), "cpu");
  const auto refused = place_id(mixed(), "quern", "cuda:0");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message, "device: 'cuda:0': engine quern computes on cpu");
}

TEST(Placement, AutoTakesTheRoomiestOfTheBestKind) {
  EXPECT_EQ(*place_id(mixed(), "vllm", "auto"), "cuda:1");
  EXPECT_EQ(*place_id(mixed(), "vllm", "auto", 15 * kGiB), "cuda:1");
  EXPECT_EQ(*place_id(mixed(), "vllm", "auto", 25 * kGiB), "rocm:0");
  EXPECT_EQ(*place_id(mixed(), "vllm", "gpu"), "cuda:1");
  EXPECT_EQ(*place_id(mixed(), "vllm", "cuda:0"), "cuda:0");
  Inventory without_gpus = mixed();
  without_gpus.devices.clear();
  EXPECT_EQ(*place_id(without_gpus, "vllm", "auto"), "cpu");
  EXPECT_EQ(place_id(without_gpus, "vllm", "gpu").error().code, ErrorCode::kNotFound);
}

TEST(Placement, RefusalsTellWhatThereIs) {
  const auto absent = place_id(mixed(), "vllm", "cuda:7");
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(absent.error().message,
            "device: 'cuda:7': this machine has none; it has cpu, cuda:0, cuda:1, rocm:0, other:0");
  const auto full = place_id(mixed(), "vllm", "cuda", 30 * kGiB);
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(full.error().message, "device: 'cuda': 30.0 GiB are needed, free are: cuda:0 10.0 GiB, cuda:1 20.0 GiB");
  EXPECT_EQ(place_id(mixed(), "openai", "auto").error().code, ErrorCode::kUnsupported);
}

TEST(Placement, BrokenDevicesAreLeftOut) {
  Inventory inventory = mixed();
  inventory.devices[1].state = DeviceState::kUnhealthy;
  inventory.devices[1].message = "npu-smi: health Alarm";
  EXPECT_EQ(*place_id(inventory, "vllm", "cuda"), "cuda:0");
  const auto refused = place_id(inventory, "vllm", "cuda:1");
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message, "device: 'cuda:1': cuda:1: npu-smi: health Alarm");
}

// The display adapter of a processor, say: no tool tells of it.
TEST(Placement, AutoPassesOverWhatOnlyTheKernelKnows) {
  Inventory inventory = mixed();
  inventory.devices = {device(DeviceKind::kXpu, 0, std::nullopt)};
  inventory.devices[0].state = DeviceState::kNoTool;
  EXPECT_EQ(*place_id(inventory, "vllm", "auto"), "cpu");
  EXPECT_EQ(*place_id(inventory, "vllm", "xpu"), "xpu:0");
}

TEST(Placement, UnknownMemoryComesAfterKnown) {
  Inventory inventory = mixed();
  inventory.devices = {device(DeviceKind::kCuda, 0, std::nullopt), device(DeviceKind::kCuda, 1, kGiB)};
  EXPECT_EQ(*place_id(inventory, "vllm", "cuda"), "cuda:1");
  EXPECT_EQ(*place_id(inventory, "vllm", "cuda", 2 * kGiB), "cuda:0");
}

TEST(Placement, VulkanIsAnyGpuWithADriver) {
  EXPECT_EQ(*place_id(mixed(), "llama.cpp", "vulkan"), "rocm:0");
  EXPECT_EQ(place_id(mixed(), "vllm", "vulkan").error().code, ErrorCode::kUnsupported);
}

TEST(Placement, FitsTellWhyNot) {
  const auto ours = fit_devices(mixed(), "quern");
  ASSERT_EQ(ours.size(), 5u);
  EXPECT_TRUE(ours[0].reason.empty());
  EXPECT_EQ(ours[1].reason, "engine quern computes on cpu");
  const auto vllm = fit_devices(mixed(), "vllm");
  EXPECT_TRUE(vllm[1].reason.empty());
  EXPECT_FALSE(vllm[4].reason.empty());
}

TEST(Placement, VisibilityOfOneDevice) {
  DeviceInfo cuda = device(DeviceKind::kCuda, 2, std::nullopt);
  EXPECT_EQ(visibility_of(cuda), (std::pair<std::string, std::string>("CUDA_VISIBLE_DEVICES", "2")));
  cuda.uuid = "GPU-aa";
  EXPECT_EQ(visibility_of(cuda).second, "GPU-aa");
  EXPECT_EQ(visibility_of(device(DeviceKind::kNpu, 1, std::nullopt)).first, "ASCEND_RT_VISIBLE_DEVICES");
  EXPECT_TRUE(visibility_of(device(DeviceKind::kCpu, 0, std::nullopt)).first.empty());
}

}  // namespace
}  // namespace quern
