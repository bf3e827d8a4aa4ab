#include "platform/fleet/device_wish.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace quern {
namespace {

DeviceInfo cuda_device(int32_t index, const char* uuid) {
  DeviceInfo device;
  device.kind = DeviceKind::kCuda;
  device.index = index;
  device.uuid = uuid;
  return device;
}

TEST(DeviceWish, ListsNameDevicesByNumberOrUuid) {
  const DeviceInfo device = cuda_device(2, "GPU-12345678-9abc");
  for (const char* list : {"2", "0,2", "3, 2", "GPU-12345678-9abc", "0,GPU-1234"}) {
    EXPECT_TRUE(is_listed(device, list)) << list;
  }
  for (const char* list : {"", "0,1", "12", "22,20", "-1", "GPU-9", "GPU-12345678-9abcd", ","}) {
    EXPECT_FALSE(is_listed(device, list)) << list;
  }
}

TEST(DeviceWish, WhatOnlyTheKernelKnowsHasToBeNamed) {
  const Json devices = {{{"id", "cpu"}, {"state", "ok"}},
                        {{"id", "rocm:0"}, {"state", "no_tool"}},
                        {{"id", "rocm:1"}, {"state", "ok"}, {"memory_total", 8}},
                        {{"id", "rocm:2"}, {"state", "ok"}, {"must_be_named", true}},
                        {{"id", "rocm:3"}, {"state", "unhealthy"}}};
  const auto found = device_memories(devices);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[0].must_be_named);
  EXPECT_FALSE(found[1].must_be_named);
  EXPECT_TRUE(found[2].must_be_named);
  Inventory inventory;
  inventory.devices = {cuda_device(0, "GPU-a"), cuda_device(1, "GPU-b")};
  inventory.devices[1].state = DeviceState::kNoTool;
  const auto own = device_memories(inventory);
  ASSERT_EQ(own.size(), 2U);
  const bool is_limited = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  EXPECT_TRUE(is_limited || !own[0].must_be_named);
  EXPECT_TRUE(own[1].must_be_named);
}

TEST(DeviceWish, SomeEnginesTakeAPartOfTheDevice) {
  LaunchSpec spec{.uid = "u", .engine = "vllm"};
  EXPECT_EQ(device_fraction(spec), 0.9);
  spec.engine_options["gpu_memory_utilization"] = "0.35";
  EXPECT_EQ(device_fraction(spec), 0.35);
  spec.engine_options["gpu_memory_utilization"] = "much";
  EXPECT_EQ(device_fraction(spec), 0.9);
  spec.engine = "sglang";
  spec.engine_options["mem_fraction_static"] = "0.5";
  EXPECT_EQ(device_fraction(spec), 0.5);
  spec.engine = "llama.cpp";
  EXPECT_EQ(device_fraction(spec), 0);
}

}  // namespace
}  // namespace quern
