// Samples in tests/hardware; what each format leaves open is an output of its own here.
#include "hardware/inventory/tool_parsers.h"

#include <gtest/gtest.h>

#include "hardware/inventory/samples_testing.h"
#include "hardware/inventory/tool_text.h"

namespace quern {
namespace {

using inventory_testing::sample;

Devices devices_of(Result<Devices> result) {
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::move(*result) : Devices();
}

TEST(ToolParsers, NvidiaCsv) {
  const Devices devices = devices_of(parse_query_csv(sample("nvidia-smi"), DeviceKind::kCuda, "nvidia-smi"));
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].id(), "cuda:0");
  EXPECT_EQ(devices[0].vendor, "NVIDIA");
  EXPECT_EQ(devices[0].name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(devices[0].pci, "0000:3b:00.0");
  EXPECT_EQ(devices[0].uuid, "GPU-5f3c0a52-7c1e-4a0e-9a67-0b8e5d1d2c11");
  EXPECT_EQ(devices[0].driver, "550.90.12");
  EXPECT_EQ(devices[0].memory_total_bytes, 81920 * kMiB);
  EXPECT_EQ(devices[0].memory_free_bytes, 81044 * kMiB);
  EXPECT_EQ(devices[0].load, 0.0);
  EXPECT_EQ(devices[1].name, "NVIDIA GPU, PCIe");
  EXPECT_EQ(devices[1].load, 0.97);
  EXPECT_EQ(devices[2].pci, "000f:01:00.0");
  EXPECT_FALSE(devices[2].memory_total_bytes);  // memory shared with the processor: the tool does not say
  EXPECT_FALSE(devices[2].load);
}

TEST(ToolParsers, NvidiaWithoutDevices) {
  EXPECT_TRUE(devices_of(parse_query_csv(sample("nvidia-smi-none"), DeviceKind::kCuda, "nvidia-smi")).empty());
}

TEST(ToolParsers, IluvatarCsv) {
  const Devices devices = devices_of(parse_query_csv(sample("ixsmi"), DeviceKind::kIluvatar, "ixsmi"));
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].id(), "iluvatar:0");
  EXPECT_EQ(devices[0].memory_free_bytes, (32768 - 27996) * kMiB);
  EXPECT_EQ(devices[0].load, 0.03);
}

TEST(ToolParsers, AmdSmi) {
  const Devices devices = devices_of(parse_amd_smi(sample("amd-smi-static"), sample("amd-smi-metric")));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "AMD Instinct MI300X");
  EXPECT_EQ(devices[0].memory_total_bytes, 196592 * kMiB);
  EXPECT_EQ(devices[0].memory_free_bytes, (196592 - 283) * kMiB);
  EXPECT_EQ(devices[0].load, 0.37);
  EXPECT_EQ(devices[0].driver, "6.12.12");
  EXPECT_EQ(devices[1].pci, "0000:26:00.0");
  EXPECT_EQ(devices[1].memory_total_bytes, 196592 * kMiB);
  EXPECT_FALSE(devices[1].memory_free_bytes);
  EXPECT_TRUE(devices[1].name.empty());
}

TEST(ToolParsers, RocmSmiOfAmdAndOfHygon) {
  const Devices amd = devices_of(parse_rocm_smi(sample("rocm-smi"), DeviceKind::kRocm, "rocm-smi"));
  ASSERT_EQ(amd.size(), 1u);
  EXPECT_EQ(amd[0].id(), "rocm:0");
  EXPECT_EQ(amd[0].name, "Radeon RX 7900 XTX");
  EXPECT_EQ(amd[0].memory_total_bytes, 25753026560);
  EXPECT_EQ(amd[0].memory_free_bytes, 25753026560 - 1073741824);
  EXPECT_EQ(amd[0].driver, "6.8.5");
  const Devices hygon = devices_of(parse_rocm_smi(sample("hy-smi"), DeviceKind::kRocm, "rocm-smi"));
  ASSERT_EQ(hygon.size(), 2u);
  EXPECT_EQ(hygon[1].id(), "dcu:1");
  EXPECT_EQ(hygon[0].vendor, "Hygon");
  EXPECT_EQ(hygon[0].memory_free_bytes, (65520 - 51920) * kMiB);
  EXPECT_EQ(hygon[0].load, 0.42);
  EXPECT_EQ(hygon[0].driver, "6.2.26");
}

TEST(ToolParsers, XpuSmi) {
  Devices devices = devices_of(parse_xpu_discovery(sample("xpu-smi-discovery")));
  ASSERT_EQ(devices.size(), 1u);  // virtual functions are no devices of their own
  ASSERT_TRUE(add_xpu_details(sample("xpu-smi-details"), devices[0]));
  ASSERT_TRUE(add_xpu_stats(sample("xpu-smi-stats"), devices[0]));
  EXPECT_EQ(devices[0].id(), "xpu:0");
  EXPECT_EQ(devices[0].name, "Intel(R) Data Center GPU Flex 170");
  EXPECT_EQ(devices[0].driver, "I915_23.10.54");
  EXPECT_EQ(devices[0].memory_total_bytes, 15032385536);
  EXPECT_EQ(devices[0].memory_free_bytes, 15032385536 - 1536 * kMiB);
  EXPECT_EQ(devices[0].load, 0.425);
}

TEST(ToolParsers, Apple) {
  Devices devices = devices_of(parse_system_profiler(sample("system_profiler")));
  ASSERT_EQ(devices.size(), 1u);
  add_apple_memory(sample("sysctl"), sample("vm_stat"), devices);
  EXPECT_EQ(devices[0].id(), "metal:0");
  EXPECT_EQ(devices[0].name, "Apple M2 Max (38 cores)");
  EXPECT_EQ(devices[0].driver, "metal3");
  EXPECT_TRUE(devices[0].shares_system_memory);
  EXPECT_EQ(devices[0].memory_total_bytes, 34359738368);
  EXPECT_EQ(devices[0].memory_free_bytes, int64_t{512000} * 16384);
  // Found by mutation: the product of two numbers that are each within reason.
  add_apple_memory("hw.memsize: 34359738368", "page size of 1048576 bytes)\nPages free: 999999999999999.", devices);
  EXPECT_EQ(devices[0].memory_free_bytes, 34359738368);
}

TEST(ToolParsers, NpuSmi) {
  const Devices devices = devices_of(parse_npu_smi(sample("npu-smi")));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].id(), "npu:0");
  EXPECT_EQ(devices[0].name, "Ascend 910B3");
  EXPECT_EQ(devices[0].pci, "0000:c1:00.0");
  EXPECT_EQ(devices[0].driver, "24.1.rc1");
  EXPECT_EQ(devices[0].memory_total_bytes, 65536 * kMiB);
  EXPECT_EQ(devices[0].memory_free_bytes, (65536 - 53984) * kMiB);
  EXPECT_EQ(devices[0].load, 0.07);
  EXPECT_EQ(devices[0].state, DeviceState::kOk);
  EXPECT_EQ(devices[1].state, DeviceState::kUnhealthy);
  EXPECT_EQ(devices[1].message, "npu-smi: health Warning");
  const Devices small = devices_of(parse_npu_smi(sample("npu-smi-310p")));
  ASSERT_EQ(small.size(), 2u);
  EXPECT_EQ(small[1].id(), "npu:1");
  EXPECT_EQ(small[1].memory_free_bytes, (43693 - 1358) * kMiB);
}

TEST(ToolParsers, Cnmon) {
  const Devices devices = devices_of(parse_cnmon(sample("cnmon")));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].id(), "mlu:0");
  EXPECT_EQ(devices[0].name, "MLU370-X8");
  EXPECT_EQ(devices[0].driver, "5.10.22");
  EXPECT_EQ(devices[0].memory_free_bytes, (23374 - 1024) * kMiB);
  EXPECT_EQ(devices[0].load, 0.35);
  EXPECT_EQ(devices[1].pci, "0000:3d:00.0");
  const Devices old = devices_of(parse_cnmon(sample("cnmon-v4")));
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0].driver, "4.20.11");
  EXPECT_TRUE(old[0].pci.empty());
  EXPECT_EQ(old[0].memory_total_bytes, 23308 * kMiB);
}

TEST(ToolParsers, MthreadsGmi) {
  const Devices devices = devices_of(parse_mthreads_gmi(sample("mthreads-gmi")));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].id(), "musa:0");
  EXPECT_EQ(devices[0].name, "MTT S4000");
  EXPECT_EQ(devices[0].driver, "2.7.0");
  EXPECT_EQ(devices[0].memory_free_bytes, (49152 - 44302) * kMiB);
  EXPECT_EQ(devices[1].pci, "0000:04:00.0");
  EXPECT_EQ(devices[1].memory_total_bytes, 16384 * kMiB);
}

TEST(ToolParsers, MxSmi) {
  const Devices devices = devices_of(parse_mx_smi(sample("mx-smi")));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].id(), "maca:0");
  EXPECT_EQ(devices[0].name, "MetaX N260");
  EXPECT_EQ(devices[0].driver, "3.0.11");
  EXPECT_EQ(devices[0].memory_free_bytes, (65536 - 666) * kMiB);
  EXPECT_EQ(devices[0].load, 0.05);
  EXPECT_EQ(devices[0].state, DeviceState::kOk);
  EXPECT_EQ(devices[1].state, DeviceState::kUnhealthy);
  const Devices boards = devices_of(parse_mx_smi(sample("mx-smi-boards")));
  ASSERT_EQ(boards.size(), 1u);
  EXPECT_EQ(boards[0].name, "MetaX C500");
  EXPECT_EQ(boards[0].pci, "0000:0e:00.0");
  EXPECT_EQ(boards[0].memory_total_bytes, 65536 * kMiB);
}

// An answer that is none is refused by the tool's name.
TEST(ToolParsers, GarbageIsNamed) {
  for (const std::string garbage :
       {"", "Segmentation fault", "\xff\xfe\x00|", "{", "[[[[", "null", "| a | b |\n", "{}"}) {
    const std::pair<const char*, Result<Devices>> results[] = {
        {"nvidia-smi", parse_query_csv(garbage, DeviceKind::kCuda, "nvidia-smi")},
        {"amd-smi", parse_amd_smi(garbage, garbage)},
        {"xpu-smi", parse_xpu_discovery(garbage)},
        {"system_profiler", parse_system_profiler(garbage)},
        {"npu-smi", parse_npu_smi(garbage)},
        {"cnmon", parse_cnmon(garbage)},
        {"mthreads-gmi", parse_mthreads_gmi(garbage)},
        {"mx-smi", parse_mx_smi(garbage)},
    };
    for (const auto& [tool, result] : results) {
      ASSERT_FALSE(result) << tool << " " << garbage;
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidFile);
      EXPECT_TRUE(result.error().message.starts_with(std::string(tool) + ": ")) << result.error().message;
    }
  }
  // ROCm's tool prints an empty object where there is no card.
  EXPECT_TRUE(devices_of(parse_rocm_smi("{}", DeviceKind::kRocm, "rocm-smi")).empty());
  EXPECT_FALSE(parse_rocm_smi("[1]", DeviceKind::kRocm, "rocm-smi"));
}

TEST(ToolParsers, NumbersBeyondReasonAreNotKnown) {
  const std::string text =
      "index, name, memory.total [MiB], utilization.gpu [%]\n0, X, 99999999999999999999 MiB, 250 %\n";
  const Devices devices = devices_of(parse_query_csv(text, DeviceKind::kCuda, "nvidia-smi"));
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_FALSE(devices[0].memory_total_bytes);
  EXPECT_FALSE(devices[0].load);
  EXPECT_FALSE(parse_query_csv("index, name\n-1, X\n", DeviceKind::kCuda, "nvidia-smi"));
  EXPECT_FALSE(parse_query_csv("index, name\n99999, X\n", DeviceKind::kCuda, "nvidia-smi"));
}

TEST(ToolText, Memory) {
  EXPECT_EQ(memory_bytes("24564 MiB", 1), 24564 * kMiB);
  EXPECT_EQ(memory_bytes("1.5 GB", 1), 1536 * kMiB);
  EXPECT_EQ(memory_bytes("7", kMiB), 7 * kMiB);
  EXPECT_EQ(memory_bytes("-1 MiB", 1), std::nullopt);
  EXPECT_EQ(memory_bytes("N/A", 1), std::nullopt);
  EXPECT_EQ(memory_bytes("nan", 1), std::nullopt);
}

TEST(PciAddress, IsOneFormForAll) {
  EXPECT_EQ(normal_pci_address("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(normal_pci_address("3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(normal_pci_address("0001:3b:00.1"), "0001:3b:00.1");
  EXPECT_EQ(normal_pci_address("0001:3b:00"), "");
  EXPECT_EQ(normal_pci_address("zz:00.0"), "");
  EXPECT_EQ(normal_pci_address("0000-3b:00.0"), "");
}

}  // namespace
}  // namespace quern
