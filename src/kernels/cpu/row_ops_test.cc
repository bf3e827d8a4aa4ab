// The CPU device's operations on rows against the reference, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/isa.h"
#include "kernels/testing/matrix.h"

namespace quern {
namespace {

using testing_util::cpu_device;
using testing_util::expect_close;
using testing_util::expect_same_bits;
using testing_util::kEps;
using testing_util::Matrix;

// Empty, one, below and around every vector width, odd tails, and enough rows to wake a second thread.
struct Size {
  int64_t rows, cols;
};
constexpr Size kSizes[] = {{0, 5}, {1, 1}, {1, 0}, {3, 7}, {2, 8}, {2, 16}, {5, 17}, {1, 31}, {4, 100}, {70, 577}};

class RowOpsTest : public testing::TestWithParam<std::string> {
 protected:
  // Runs `op` on the reference and on the CPU with one and with two threads. in, in2: inputs; both outputs are
  // compared.
  void compare(Size size, const std::function<void(Device&, Mat, Mat, Mat)>& op,
               const std::function<double(double, double, double)>& tolerance, const std::string& what, float low = -3,
               float high = 3) {
    Matrix x = Matrix::random(size.rows, size.cols, 1, low, high), y = Matrix::random(size.rows, size.cols, 2);
    Matrix expected(size.rows, size.cols), one(size.rows, size.cols), two(size.rows, size.cols);
    op(*reference_, x, y, expected);
    op(*one_, x, y, one);
    op(*two_, x, y, two);
    expect_close(
        one, expected, [&](int64_t r, int64_t c) { return tolerance(x.at(r, c), y.at(r, c), expected.at(r, c)); },
        what);
    expect_same_bits(one, two, what + ", one and two threads");
    op(*one_, x, y, x);
    expect_same_bits(x, one, what + ", in place");
  }

  std::unique_ptr<Device> reference_ = make_reference_device();
  std::unique_ptr<Device> one_ = cpu_device(GetParam(), 1);
  std::unique_ptr<Device> two_ = cpu_device(GetParam(), 2);
};

INSTANTIATE_TEST_SUITE_P(Isa, RowOpsTest, testing::ValuesIn(cpu::available_isas()),
                         [](const auto& isa) { return isa.param; });

TEST_P(RowOpsTest, Arithmetic) {
  std::vector<float> row(1000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = std::sin(static_cast<float>(i));
  for (Size size : kSizes) {
    compare(
        size, [](Device& d, Mat x, Mat y, Mat out) { d.add(x, y, 0.37f, out); },
        [](double x, double y, double) { return kEps * (std::abs(x) + std::abs(y)); }, "add");
    compare(
        size, [&](Device& d, Mat x, Mat, Mat out) { d.add_row(x, row.data(), out); },
        [](double x, double, double) { return kEps * (std::abs(x) + 1); }, "add_row");
    compare(
        size, [](Device& d, Mat x, Mat, Mat out) { d.scale(x, -1.7f, out); },
        [](double, double, double e) { return kEps * std::abs(e); }, "scale");
    compare(
        size,
        [&](Device& d, Mat x, Mat, Mat out) {
          d.scale_rows(x, std::span(row).first(static_cast<size_t>(x.rows)), out);
        },
        [](double, double, double e) { return kEps * std::abs(e); }, "scale_rows");
    compare(
        size, [](Device& d, Mat x, Mat, Mat out) { d.copy(x, out); }, [](double, double, double) { return 0.0; },
        "copy");
    compare(
        size, [](Device& d, Mat x, Mat, Mat out) { d.softcap(x, 2.5f, out); },
        [](double, double, double e) { return 4 * kEps * std::abs(e); }, "softcap");
  }
}

// x * f(x) has a relative error of some units in the last place of f, and one of the product. erf's tail is computed
// from e^(-x*x/2), whose relative error grows with x*x: its bound is absolute.
double activation_tolerance(Activation kind, double x, double expected) {
  if (kind == Activation::kGelu) return 4 * kEps * std::max(1.0, std::abs(x));
  // The argument of the exponential is rounded, up to four times: an error of so much of |argument| in the result,
  // relatively.
  const double argument =
      kind == Activation::kGeluTanh ? 4 * 0.8 * (std::abs(x) + 0.0447 * std::abs(x * x * x)) : 2 * std::abs(x);
  return kEps * (4 + argument) * std::abs(expected) + std::numeric_limits<float>::min() * std::max(1.0, std::abs(x));
}

TEST_P(RowOpsTest, Activations) {
  for (Activation kind : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu,
                          Activation::kRelu, Activation::kReluSquared, Activation::kTanh, Activation::kSigmoid}) {
    const std::string what = "activation " + std::to_string(static_cast<int>(kind));
    for (Size size : kSizes) {
      for (float range : {0.1f, 5.0f, 120.0f}) {
        compare(
            size, [&](Device& d, Mat x, Mat, Mat out) { d.activate(x, kind, out); },
            [&](double x, double, double e) { return activation_tolerance(kind, x, e); }, what, -range, range);
      }
      compare(
          size, [&](Device& d, Mat x, Mat y, Mat out) { d.activate_multiply(x, y, kind, out); },
          [&](double x, double y, double e) {
            return activation_tolerance(kind, x, e / y) * std::abs(y) + kEps * std::abs(e);
          },
          what + " times up");
    }
  }
  for (Size size : kSizes) {
    compare(
        size, [](Device& d, Mat x, Mat y, Mat out) { d.swiglu_clamped(x, y, 0.7f, out); },
        [](double, double, double e) { return 10 * kEps * std::abs(e); }, "swiglu_clamped");
  }
}

TEST_P(RowOpsTest, ErfGeluIsAccurateEverywhere) {
  constexpr int64_t kCount = 40001;
  Matrix x(1, kCount), out(1, kCount);
  for (int64_t i = 0; i < kCount; ++i) x.at(0, i) = static_cast<float>(i - kCount / 2) * 5e-4f;
  one_->activate(x, Activation::kGelu, out);
  for (int64_t i = 0; i < kCount; ++i) {
    const double v = x.at(0, i), expected = 0.5 * v * std::erfc(-v / std::numbers::sqrt2);
    ASSERT_NEAR(out.at(0, i), expected, 1e-6 * std::max(1.0, std::abs(v) / 8)) << "at " << v;
  }
}

TEST_P(RowOpsTest, ExtremesStayFinite) {
  Matrix x(1, 8), out(1, 8);
  const float values[] = {1e30f, -1e30f, 3e38f, -3e38f, 0.0f, -0.0f, 1e-40f, 89.0f};
  std::ranges::copy(values, &x.at(0, 0));
  for (Activation kind : {Activation::kSilu, Activation::kQuickGelu, Activation::kTanh, Activation::kSigmoid}) {
    one_->activate(x, kind, out);
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_TRUE(std::isfinite(out.at(0, i))) << static_cast<int>(kind) << " of " << values[i];
  }
  x.at(0, 3) = std::numeric_limits<float>::quiet_NaN();
  for (Activation kind : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kTanh}) {
    one_->activate(x, kind, out);
    EXPECT_TRUE(std::isnan(out.at(0, 3))) << "a NaN must not be hidden: " << static_cast<int>(kind);
  }
}

// A sum of n squares in s interleaved parts has a relative error of at most n / s + s roundings; the norm's factor half
// of it. A mean is off by as much of the mean magnitude, which the factor scales up.
TEST_P(RowOpsTest, Norms) {
  const Matrix weights = Matrix::random(2, 1000, 7);
  Matrix affine = weights;
  for (Size size : kSizes) {
    for (int64_t width : {int64_t{0}, size.cols % 7 == 0 && size.cols > 0 ? 7 : size.cols}) {
      for (bool with_weights : {false, true}) {
        Device::NormSpec spec;
        spec.width = width;
        spec.epsilon = 1e-5f;
        spec.weight_per_slice = width > 0 && with_weights;
        spec.weight_offset = with_weights ? 1.0f : 0.0f;
        spec.weight = with_weights ? &affine.at(0, 0) : nullptr;
        spec.bias = with_weights ? &affine.at(1, 0) : nullptr;
        const double n = static_cast<double>(width > 0 ? width : size.cols);
        const double roundings = n / 4 + 8;
        compare(
            size, [&](Device& d, Mat x, Mat, Mat out) { d.rms_norm(x, spec, out); },
            [&](double, double, double e) { return kEps * roundings * (std::abs(e) + 1); }, "rms_norm");
        // |x - mean| * factor <= sqrt(n), so values of a tiny spread around 3 are the worst: spread is not tiny here.
        compare(
            size, [&](Device& d, Mat x, Mat, Mat out) { d.layer_norm(x, spec, out); },
            [&](double, double, double e) {
              return kEps * roundings * (std::abs(e) + 4) + (n == 1 ? 3 * kEps / std::sqrt(1e-5) : 0);
            },
            "layer_norm");
      }
    }
  }
}

TEST_P(RowOpsTest, Rope) {
  for (RopeStyle style : {RopeStyle::kHalves, RopeStyle::kPairs}) {
    for (int64_t half : {0, 1, 3, 4, 8, 17, 32, 48}) {
      for (int32_t offset : {0, 5}) {
        for (int64_t rows : {0, 1, 6, 90}) {
          Device::RopeSpec spec;
          spec.head_dim = static_cast<int32_t>(2 * half) + offset + 2;
          spec.offset = offset;
          spec.style = style;
          Matrix x = Matrix::random(rows, 3 * spec.head_dim, 3), one = x, two = x;
          Matrix cosine = Matrix::random(rows, half, 4), sine = Matrix::random(rows, half, 5);
          reference_->rope(x, spec, cosine, sine);
          one_->rope(one, spec, cosine, sine);
          two_->rope(two, spec, cosine, sine);
          expect_close(one, x, [](int64_t, int64_t) { return 2 * kEps; }, "rope");
          expect_same_bits(one, two, "rope, one and two threads");
        }
      }
    }
  }
}

TEST_P(RowOpsTest, GatherRows) {
  Matrix x = Matrix::random(50, 33, 1), out(4, 33);
  const std::vector<int32_t> rows = {49, 0, 7, 7};
  one_->gather_rows(x, rows, out);
  for (int64_t i = 0; i < 4; ++i) {
    expect_same_bits(out.mat().slice_rows(i, 1), x.mat().slice_rows(rows[static_cast<size_t>(i)], 1), "gather_rows");
  }
}

TEST_P(RowOpsTest, CombineExperts) {
  for (int32_t top_k : {1, 2, 5}) {
    for (Size size : kSizes) {
      Matrix x = Matrix::random(size.rows * top_k, size.cols, 1),
             weights = Matrix::random(1, size.rows * top_k, 2, 0, 1);
      Matrix expected(size.rows, size.cols), one(size.rows, size.cols), two(size.rows, size.cols);
      const std::span<const float> w(&weights.at(0, 0), static_cast<size_t>(size.rows * top_k));
      reference_->combine_experts(x, w, top_k, expected);
      one_->combine_experts(x, w, top_k, one);
      two_->combine_experts(x, w, top_k, two);
      expect_close(one, expected, [&](int64_t, int64_t) { return kEps * top_k * top_k; }, "combine_experts");
      expect_same_bits(one, two, "combine_experts, one and two threads");
    }
  }
}

RouterSpec random_router(std::mt19937& generator, const float* bias) {
  RouterSpec spec;
  spec.top_k = 1 + static_cast<int32_t>(generator() % 4);
  spec.sigmoid = generator() % 2 == 0;
  spec.softmax_after_top_k = !spec.sigmoid && generator() % 2 == 0;
  spec.normalize = generator() % 2 == 0;
  spec.scale = generator() % 2 == 0 ? 1.0f : 2.5f;
  spec.bias = generator() % 2 == 0 ? bias : nullptr;
  spec.num_groups = generator() % 2 == 0 ? 4 : 1;
  spec.top_groups = spec.num_groups == 4 ? 2 : 1;
  spec.group_score_top2 = generator() % 2 == 0;
  return spec;
}

TEST_P(RowOpsTest, Route) {
  std::mt19937 generator(11);
  Matrix bias = Matrix::random(1, 64, 6);
  for (int trial = 0; trial < 60; ++trial) {
    const RouterSpec spec = random_router(generator, &bias.at(0, 0));
    const int64_t experts = trial % 3 == 0 ? 64 : trial % 3 == 1 ? 12 : 8, rows = trial % 40;
    Matrix logits = Matrix::random(rows, experts, static_cast<uint32_t>(trial), -4, 4);
    const auto chosen = static_cast<size_t>(rows * spec.top_k);
    std::vector<int32_t> ids(chosen), expected_ids(chosen);
    std::vector<float> weights(chosen), expected_weights(chosen);
    reference_->route(logits, spec, expected_ids, expected_weights);
    (trial % 2 == 0 ? one_ : two_)->route(logits, spec, ids, weights);
    EXPECT_EQ(ids, expected_ids) << "trial " << trial;
    for (size_t i = 0; i < chosen; ++i)
      EXPECT_NEAR(weights[i], expected_weights[i], 16 * kEps * spec.scale) << "trial " << trial;
  }
}

TEST_P(RowOpsTest, RouteTakesTheLowerIndexOfEqualsAndSurvivesNan) {
  Matrix logits(2, 6);
  for (int64_t c = 0; c < 6; ++c) logits.at(1, c) = c == 4 ? 1.0f : std::numeric_limits<float>::quiet_NaN();
  RouterSpec spec;
  spec.top_k = 3;
  spec.sigmoid = true;
  std::vector<int32_t> ids(6);
  std::vector<float> weights(6);
  one_->route(logits, spec, ids, weights);
  EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + 3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(ids[3], 4);
  for (int32_t id : ids) EXPECT_TRUE(id >= 0 && id < 6);
}

TEST(CpuDevice, RefusesWhatItCannotDo) {
  CpuDeviceOptions options;
  options.isa = "mmx";
  EXPECT_EQ(make_cpu_device(options).error().code, ErrorCode::kInvalidArgument);
  const std::vector<std::string> present = cpu::available_isas();
  for (const char* isa : {"amx", "avx512", "avx2", "sse4", "neon", "scalar"}) {
    options.isa = isa;
    if (std::ranges::find(present, isa) == present.end()) {
      EXPECT_EQ(make_cpu_device(options).error().code, ErrorCode::kUnsupported) << isa;
    } else {
      EXPECT_TRUE(make_cpu_device(options).value()->name().starts_with(std::string("cpu (") + isa)) << isa;
    }
  }
  options.isa = "";
  options.num_threads = -1;
  EXPECT_EQ(make_cpu_device(options).error().code, ErrorCode::kInvalidArgument);
}

// A device with matrix tiles is the one with AVX-512 and faster products: no bit of any operation differs.
TEST(CpuDevice, TilesComeOnTopOfAvx512) {
  const std::vector<std::string> present = cpu::available_isas();
  if (std::ranges::find(present, "amx") == present.end()) GTEST_SKIP() << "no matrix tiles on this machine";
  std::vector<std::vector<float>> results;
  for (const char* isa : {"avx512", "amx"}) {
    CpuDeviceOptions options;
    options.isa = isa;
    const auto device = make_cpu_device(options).value();
    std::vector<float> x(1000), out(1000);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));
    const Mat row = {x.data(), 1, 1000, 1000};
    device->rms_norm(row, {}, {out.data(), 1, 1000, 1000});
    results.push_back(out);
  }
  EXPECT_EQ(results[0], results[1]);
  CpuDeviceOptions best;
  EXPECT_TRUE(make_cpu_device(best).value()->name().starts_with("cpu (amx"));
}

}  // namespace
}  // namespace quern
