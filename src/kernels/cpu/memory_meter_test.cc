#include "kernels/cpu/memory_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern {
namespace {

// What the meter says is what packing takes.
TEST(MemoryMeter, CountsWhatTheDevicePacks) {
  constexpr int64_t kRows = 37, kCols = 512, kPlanes = 2;
  const auto device = make_cpu_device({.num_threads = 1});
  ASSERT_TRUE(device);
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4K, DType::kQ6K, DType::kF32, DType::kF16, DType::kBF16}) {
    const std::vector<std::byte> bytes(*dtype_bytes(dtype, kPlanes * kRows * kCols));
    const WeightRows rows{.dtype = dtype, .rows = kPlanes * kRows, .cols = kCols, .bytes = bytes.data()};
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      MemoryMeter meter;
      const auto packed = (*device)->pack({&rows, 1}, kPlanes, precision);
      const auto metered = meter.pack({&rows, 1}, kPlanes, precision);
      ASSERT_TRUE(packed && metered) << dtype_info(dtype).name;
      EXPECT_EQ((*metered)->device_bytes, (*packed)->device_bytes) << dtype_info(dtype).name;
      EXPECT_EQ(meter.count().packed_bytes, static_cast<int64_t>((*packed)->device_bytes));
      EXPECT_EQ(meter.count().in_place_bytes, (*packed)->device_bytes == 0 ? std::ssize(bytes) : 0);
    }
  }
}

TEST(MemoryMeter, CountsBuffersAndCaches) {
  MemoryMeter meter;
  ASSERT_TRUE(meter.allocate(1000));
  EXPECT_EQ(meter.count().buffer_bytes, 4000);
  ASSERT_TRUE(meter.allocate(1 << 20));  // whole huge pages
  EXPECT_EQ(meter.count().buffer_bytes, 4000 + (4 << 20));
  const KvLayerSpec layer{.num_kv_heads = 2, .key_dim = 64, .value_dim = 64};
  ASSERT_TRUE(meter.allocate_kv({{layer, layer}}, 10));
  EXPECT_EQ(meter.count().kv_bytes, 2 * 10 * 16 * 2 * (64 + 64) * 2);
}

}  // namespace
}  // namespace quern
