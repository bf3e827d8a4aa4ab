// Matrices and comparisons for the tests of devices.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace quern::testing_util {

inline constexpr float kEps = std::numeric_limits<float>::epsilon();

// A matrix in host memory whose rows start off every vector's boundary and do not touch each other.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols), values_(static_cast<size_t>(1 + rows * (cols + 3))) {}

  static Matrix random(int64_t rows, int64_t cols, uint32_t seed, float low = -1, float high = 1) {
    Matrix m(rows, cols);
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> distribution(low, high);
    for (float& v : m.values_) v = distribution(generator);
    return m;
  }

  Mat mat() { return {values_.data() + 1, rows_, cols_, cols_ + 3}; }
  operator Mat() { return mat(); }
  float& at(int64_t r, int64_t c) { return mat().row(r)[c]; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

 private:
  int64_t rows_, cols_;
  std::vector<float> values_;
};

// tolerance(row, col): largest difference that rounding explains.
inline void expect_close(Mat actual, Mat expected, const std::function<double(int64_t, int64_t)>& tolerance,
                         const std::string& what) {
  ASSERT_EQ(actual.rows, expected.rows) << what;
  ASSERT_EQ(actual.cols, expected.cols) << what;
  for (int64_t r = 0; r < actual.rows; ++r) {
    for (int64_t c = 0; c < actual.cols; ++c) {
      const double a = actual.row(r)[c], e = expected.row(r)[c], limit = tolerance(r, c);
      // Written so that NaN fails.
      ASSERT_TRUE(std::abs(a - e) <= limit) << what << ": [" << r << ", " << c << "] is " << a << ", reference " << e
                                            << ", difference " << a - e << ", tolerance " << limit;
    }
  }
}

inline void expect_same_bits(Mat a, Mat b, const std::string& what) {
  ASSERT_EQ(a.rows, b.rows) << what;
  ASSERT_EQ(a.cols, b.cols) << what;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) {
      ASSERT_EQ(std::memcmp(&a.row(r)[c], &b.row(r)[c], sizeof(float)), 0)
          << what << ": [" << r << ", " << c << "] " << a.row(r)[c] << " and " << b.row(r)[c];
    }
  }
}

inline std::unique_ptr<Device> cpu_device(const std::string& isa, int32_t num_threads) {
  CpuDeviceOptions options;
  options.isa = isa;
  options.num_threads = num_threads;
  auto device = make_cpu_device(options);
  EXPECT_TRUE(device.has_value()) << device.error().message;
  return std::move(*device);
}

}  // namespace quern::testing_util
