// A weight that is rounded while it is packed is the weight whose source had been rounded before, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_test_weights.h"
#include "kernels/cpu/memory_meter.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

constexpr DType kTargets[] = {DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};
constexpr int64_t kRows = 42, kCols = 96;

std::vector<std::byte> rounded(const TestWeight& source, DType dtype) {
  const std::vector<float> floats = source.floats();
  std::vector<std::byte> bytes(*dtype_bytes(dtype, floats.size()));
  EXPECT_TRUE(quantize(dtype, floats.data(), bytes.data(), static_cast<int64_t>(floats.size())));
  return bytes;
}

std::vector<float> product(Device& device, const Weight& weight, std::vector<float>& x) {
  std::vector<float> out(static_cast<size_t>(kRows) * x.size() / kCols, std::nanf(""));
  const auto tokens = static_cast<int64_t>(x.size()) / kCols;
  const Device::MatmulTarget target{&weight, nullptr, {out.data(), tokens, kRows, kRows}};
  device.matmul({x.data(), tokens, kCols, kCols}, {&target, 1});
  return out;
}

std::vector<std::unique_ptr<Device>> devices() {
  std::vector<std::unique_ptr<Device>> all;
  all.push_back(make_reference_device());
  for (const int32_t threads : {1, 2}) {
    auto cpu = make_cpu_device({.num_threads = threads, .isa = ""});
    EXPECT_TRUE(cpu.has_value());
    all.push_back(std::move(*cpu));
  }
  return all;
}

TEST(PackRounding, EqualsASourceRoundedBefore) {
  std::mt19937 rng(11);
  std::vector<float> x = random_floats(3 * kCols, rng);
  for (const auto& device : devices()) {
    for (const DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
      const TestWeight source = random_weight(from, kRows, kCols, rng);
      const WeightRows parts[] = {source.view(0, 5), source.view(5, 37)};
      for (const DType to : kTargets) {
        const std::vector<std::byte> before = rounded(source, to);
        const WeightRows whole{to, kRows, kCols, before.data()};
        for (const Precision precision : {Precision::kFast, Precision::kExact}) {
          const auto got = device->pack(parts, 1, {precision, to});
          ASSERT_TRUE(got.has_value()) << got.error().message;
          const auto want = device->pack({&whole, 1}, 1, precision);
          ASSERT_TRUE(want.has_value()) << want.error().message;
          EXPECT_EQ((*got)->dtype, to);
          if (from != to) {
            EXPECT_GT((*got)->device_bytes, 0u);
          }
          EXPECT_EQ(product(*device, **got, x), product(*device, **want, x))
              << device->name() << ", " << dtype_info(from).name << " to " << dtype_info(to).name;
        }
      }
    }
  }
}

TEST(PackRounding, TheMeterCountsTheSameBytes) {
  std::mt19937 rng(12);
  const TestWeight source = random_weight(DType::kBF16, kRows, kCols, rng);
  const WeightRows rows = source.view();
  const auto cpu = make_cpu_device({.num_threads = 1, .isa = ""});
  ASSERT_TRUE(cpu.has_value());
  MemoryMeter meter;
  for (const DType to : kTargets) {
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      const auto real = (*cpu)->pack({&rows, 1}, 1, {precision, to});
      const auto counted = meter.pack({&rows, 1}, 1, {precision, to});
      ASSERT_TRUE(real && counted);
      EXPECT_EQ((*real)->device_bytes, (*counted)->device_bytes) << dtype_info(to).name;
    }
  }
}

TEST(PackRounding, NamesTheRowThatCannotBeHeld) {
  std::vector<float> rows(static_cast<size_t>(kRows * kCols), 1.0f);
  rows[static_cast<size_t>(30 * kCols + 4)] = std::nanf("");
  rows[static_cast<size_t>(40 * kCols)] = INFINITY;
  const WeightRows part{DType::kF32, kRows, kCols, reinterpret_cast<const std::byte*>(rows.data())};
  for (const auto& device : devices()) {
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      const auto weight = device->pack({&part, 1}, 1, {precision, DType::kQ8_0});
      ASSERT_FALSE(weight.has_value());
      EXPECT_EQ(weight.error().code, ErrorCode::kInvalidArgument);
      EXPECT_NE(weight.error().message.find("row 30: element 4"), std::string::npos) << weight.error().message;
    }
  }
}

TEST(PackRounding, RefusesTypesThatAreNotRounded) {
  std::mt19937 rng(13);
  const TestWeight floats = random_weight(DType::kF32, 4, 48, rng);
  const TestWeight blocks = random_weight(DType::kQ4_0, 4, 64, rng);
  const WeightRows odd = floats.view(), quantized = blocks.view();
  for (const auto& device : devices()) {
    EXPECT_FALSE(device->pack({&odd, 1}, 1, {Precision::kFast, DType::kQ8_0}).has_value());
    EXPECT_FALSE(device->pack({&quantized, 1}, 1, {Precision::kFast, DType::kQ8_0}).has_value());
    EXPECT_FALSE(device->pack({&odd, 1}, 1, {Precision::kFast, DType::kQ4K}).has_value());
  }
}

}  // namespace
}  // namespace quern
