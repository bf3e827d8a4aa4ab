// RMS norm: Zhang & Sennrich 2019. Layer norm: Ba et al. 2016. Rotary embedding: Su et al. 2021.
#include <cmath>

#include "kernels/checks.h"
#include "kernels/ref/reference_device.h"

namespace quern {
namespace {

// Calls norm_slice(source, target, index of the first weight) for each slice that is normalised by itself.
void for_each_slice(Mat x, const Device::NormSpec& spec, Mat out, auto norm_slice) {
  checks::norm(x, spec, out);
  const int64_t width = spec.width > 0 ? spec.width : x.cols;
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      norm_slice(x.row(t) + begin, out.row(t) + begin, width, spec.weight_per_slice ? begin : 0);
    }
  }
}

float affine(double normal, const Device::NormSpec& spec, int64_t i) {
  if (spec.weight != nullptr) normal *= double{spec.weight[i]} + spec.weight_offset;
  if (spec.bias != nullptr) normal += spec.bias[i];
  return static_cast<float>(normal);
}

}  // namespace

void ReferenceDevice::rms_norm(Mat x, const NormSpec& spec, Mat out) {
  for_each_slice(x, spec, out, [&](const float* source, float* target, int64_t width, int64_t first) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += double{source[i]} * source[i];
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + spec.epsilon);
    for (int64_t i = 0; i < width; ++i) target[i] = affine(source[i] * factor, spec, first + i);
  });
}

void ReferenceDevice::layer_norm(Mat x, const NormSpec& spec, Mat out) {
  for_each_slice(x, spec, out, [&](const float* source, float* target, int64_t width, int64_t first) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += source[i];
    const double mean = sum / static_cast<double>(width);
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += (source[i] - mean) * (source[i] - mean);
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + spec.epsilon);
    for (int64_t i = 0; i < width; ++i) target[i] = affine((source[i] - mean) * factor, spec, first + i);
  });
}

void ReferenceDevice::rope(Mat x, const RopeSpec& spec, Mat cosine, Mat sine) {
  checks::rope(x, spec, cosine, sine);
  const int64_t half = cosine.cols;
  const int64_t step = spec.style == RopeStyle::kPairs ? 2 : 1;
  const int64_t partner = spec.style == RopeStyle::kPairs ? 1 : half;
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t head = 0; head < x.cols; head += spec.head_dim) {
      float* v = x.row(t) + head + spec.offset;
      for (int64_t i = 0; i < half; ++i) {
        float& first = v[i * step];
        float& second = v[i * step + partner];
        const double c = cosine.row(t)[i], s = sine.row(t)[i];
        const double a = first, b = second;
        first = static_cast<float>(a * c - b * s);
        second = static_cast<float>(b * c + a * s);
      }
    }
  }
}

}  // namespace quern
