#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/checks.h"
#include "kernels/ref/reference_device.h"

namespace quern {
namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double activation(double x, Activation kind) {
  switch (kind) {
    case Activation::kSilu: return x * sigmoid(x);
    case Activation::kGelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      // x (1 + tanh(u)) / 2 = x sigmoid(2u), without the cancellation.
      return x * sigmoid(2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x));
    case Activation::kQuickGelu: return x * sigmoid(1.702 * x);
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kReluSquared: return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return sigmoid(x);
  }
  return x;
}

void for_each(Mat x, Mat out, auto f) {
  checks::same_shape(x, out);
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t c = 0; c < x.cols; ++c) out.row(t)[c] = static_cast<float>(f(x.row(t)[c], t, c));
  }
}

}  // namespace

void ReferenceDevice::activate(Mat x, Activation kind, Mat out) {
  for_each(x, out, [&](double v, int64_t, int64_t) { return activation(v, kind); });
}

void ReferenceDevice::activate_multiply(Mat gate, Mat up, Activation kind, Mat out) {
  checks::same_shape(up, out);
  for_each(gate, out, [&](double v, int64_t t, int64_t c) { return activation(v, kind) * up.row(t)[c]; });
}

void ReferenceDevice::swiglu_clamped(Mat gate, Mat up, float limit, Mat out) {
  checks::same_shape(up, out);
  for_each(gate, out, [&](double v, int64_t t, int64_t c) {
    const double g = std::min(v, double{limit});
    const double u = std::clamp(up.row(t)[c], -limit, limit);
    return g * sigmoid(1.702 * g) * (u + 1.0);
  });
}

void ReferenceDevice::add(Mat x, Mat y, float y_scale, Mat out) {
  checks::same_shape(y, out);
  for_each(x, out, [&](double v, int64_t t, int64_t c) { return v + double{y_scale} * y.row(t)[c]; });
}

void ReferenceDevice::add_row(Mat x, const float* row, Mat out) {
  for_each(x, out, [&](double v, int64_t, int64_t c) { return v + row[c]; });
}

void ReferenceDevice::scale(Mat x, float factor, Mat out) {
  for_each(x, out, [&](double v, int64_t, int64_t) { return v * factor; });
}

void ReferenceDevice::scale_rows(Mat x, std::span<const float> factors, Mat out) {
  checks::scale_rows(x, factors, out);
  for_each(x, out, [&](double v, int64_t t, int64_t) { return v * factors[static_cast<size_t>(t)]; });
}

void ReferenceDevice::softcap(Mat x, float cap, Mat out) {
  for_each(x, out, [&](double v, int64_t, int64_t) { return cap * std::tanh(v / cap); });
}

void ReferenceDevice::gather_rows(Mat x, std::span<const int32_t> rows, Mat out) {
  checks::gather_rows(x, rows, out);
  for (size_t i = 0; i < rows.size(); ++i) std::copy_n(x.row(rows[i]), x.cols, out.row(static_cast<int64_t>(i)));
}

void ReferenceDevice::copy(Mat x, Mat out) {
  checks::same_shape(x, out);
  for (int64_t t = 0; t < x.rows; ++t) std::copy_n(x.row(t), x.cols, out.row(t));
}

}  // namespace quern
