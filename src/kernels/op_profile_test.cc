// A device that is measured computes what it computes otherwise, and its time, reads and multiply-adds are told.
#include <gtest/gtest.h>

#include <chrono>

#include "base/json.h"
#include "kernels/profiled_device.h"

namespace quern {
namespace {

using namespace std::chrono_literals;

TEST(OpProfile, SumsByOperationAndShape) {
  OpProfile profile(100);
  const auto at = [](auto time) { return OpProfile::Clock::time_point(time); };
  profile.add({"early"}, at(0ms), at(1ms), 0, 0);
  profile.set_enabled(true);
  profile.add({"matmul", 64, 32, DType::kQ4_1}, at(1ms), at(2ms), 10, 100);
  profile.add({"norm"}, at(2ms), at(7ms), 0, 0);
  profile.add({"matmul", 64, 32, DType::kQ4_1}, at(7ms), at(9ms), 20, 200);
  profile.add({"matmul", 64, 96, DType::kQ4_1}, at(9ms), at(10ms), 1, 2);
  const auto sums = profile.sums();
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0].label(), "norm");
  EXPECT_EQ(sums[1].label(), "matmul 64 to 32 Q4_1");
  EXPECT_EQ(sums[1].calls, 2);
  EXPECT_NEAR(sums[1].seconds, 0.003, 1e-9);
  EXPECT_EQ(sums[1].macs, 30);
  EXPECT_EQ(sums[1].bytes, 300);
  profile.clear_sums();
  EXPECT_TRUE(profile.sums().empty());
}

TEST(OpProfile, TraceIsJsonOfCompleteEvents) {
  OpProfile profile(2);
  EXPECT_EQ(Json::parse(profile.trace_json())["traceEvents"].size(), 1u);
  profile.set_enabled(true);
  const OpProfile::Clock::time_point begin(5s);
  for (int i = 0; i < 3; ++i) profile.add({"rope"}, begin + i * 10us, begin + i * 10us + 4us, 0, 0);
  EXPECT_EQ(profile.spans_left_out(), 1);
  const Json events = Json::parse(profile.trace_json())["traceEvents"];
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2]["name"], "rope");
  EXPECT_EQ(events[2]["ph"], "X");
  EXPECT_NEAR(events[2]["ts"].get<double>(), 10, 1e-6);
  EXPECT_NEAR(events[2]["dur"].get<double>(), 4, 1e-6);
}

TEST(ProfiledDevice, ComputesTheSameAndCounts) {
  OpProfile profile(0);
  profile.set_enabled(true);
  const auto device = make_profiled_device(make_reference_device(), profile);
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const WeightRows rows{
      .dtype = DType::kF32, .rows = 2, .cols = 3, .bytes = reinterpret_cast<const std::byte*>(weights.data())};
  const auto weight = std::move(*device->pack({&rows, 1}, 1, Precision::kExact));
  std::vector<float> x = {1, 1, 1, 0, 1, 0}, y(4);
  const Device::MatmulTarget target{.weight = weight.get(), .out = {y.data(), 2, 2, 2}};
  device->matmul({x.data(), 2, 3, 3}, {&target, 1});
  EXPECT_EQ(y, (std::vector<float>{6, 15, 2, 5}));
  const auto sums = profile.sums();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].label(), "matmul 3 to 2 F32");
  EXPECT_EQ(sums[0].macs, 12);
  EXPECT_EQ(sums[0].bytes, 24);
}

}  // namespace
}  // namespace quern
