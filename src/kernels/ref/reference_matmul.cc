#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/status.h"
#include "kernels/checks.h"
#include "kernels/ref/reference_device.h"
#include "quant/quantizer.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

class ReferenceWeight final : public Weight {
 public:
  std::vector<float> values;  // [planes, rows, cols]
  const float* row(int64_t plane, int64_t r) const { return values.data() + (plane * rows + r) * cols; }
};

const ReferenceWeight& cast(const Weight& weight) {
  return static_cast<const ReferenceWeight&>(weight);
}

void multiply_row(const float* x, const ReferenceWeight& w, int64_t plane, const float* bias, float* out) {
  for (int64_t r = 0; r < w.rows; ++r) {
    const float* weight = w.row(plane, r);
    double sum = 0;
    for (int64_t c = 0; c < w.cols; ++c) sum += double{x[c]} * weight[c];
    out[r] = static_cast<float>(sum + (bias != nullptr ? bias[r] : 0.0f));
  }
}

// Every row rounded, then read back.
Result<std::unique_ptr<Weight>> round_reference(std::span<const WeightRows> parts, DType dtype,
                                                std::unique_ptr<ReferenceWeight> weight) {
  const int64_t cols = weight->cols;
  if (!is_rounding_source(weight->dtype) || !is_rounding_target(dtype) ||
      cols % dtype_info(dtype).block_elements != 0) {
    return invalid_argument(fmt::format("weight: {} of {} columns is not rounded to {}", dtype_info(weight->dtype).name,
                                        cols, dtype_info(dtype).name));
  }
  std::vector<std::byte> rounded(dtype_bytes(dtype, static_cast<uint64_t>(cols)).value_or(0));
  float* target = weight->values.data();
  int64_t index = 0;
  for (const WeightRows& part : parts) {
    const size_t row_bytes = dtype_bytes(part.dtype, static_cast<uint64_t>(cols)).value_or(0);
    for (int64_t r = 0; r < part.rows; ++r, ++index, target += cols) {
      // The target doubles as scratch: it is written last.
      const Status status =
          round_row(part.dtype, part.bytes + static_cast<size_t>(r) * row_bytes, dtype, cols, target, rounded.data());
      if (!status) return invalid_argument(fmt::format("row {}: {}", index, status.error().message));
      dequantize(dtype, rounded.data(), target, cols);
    }
  }
  weight->dtype = dtype;
  return weight;
}

}  // namespace

Result<std::unique_ptr<Weight>> ReferenceDevice::pack(std::span<const WeightRows> parts, int64_t planes,
                                                      const WeightForm& form) {
  QUERN_CHECK(!parts.empty() && planes > 0);
  const DType dtype = parts[0].dtype;
  const int64_t cols = parts[0].cols;
  int64_t rows = 0;
  for (const WeightRows& part : parts) {
    QUERN_CHECK(part.dtype == dtype && part.cols == cols && part.rows >= 0);
    rows += part.rows;
  }
  QUERN_CHECK(rows % planes == 0);

  auto weight = std::make_unique<ReferenceWeight>();
  weight->planes = planes;
  weight->rows = rows / planes;
  weight->cols = cols;
  weight->dtype = dtype;
  try {
    weight->values.resize(static_cast<size_t>(rows * cols));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("no memory for {} weights", rows * cols));
  }
  weight->device_bytes = weight->values.size() * sizeof(float);
  if (form.dtype && *form.dtype != dtype) return round_reference(parts, *form.dtype, std::move(weight));
  float* target = weight->values.data();
  for (const WeightRows& part : parts) {
    dequantize(dtype, part.bytes, target, part.rows * cols);
    target += part.rows * cols;
  }
  return weight;
}

void ReferenceDevice::embed(const Weight& table, std::span<const int32_t> ids, Mat out) {
  checks::embed(table, ids, out);
  for (size_t t = 0; t < ids.size(); ++t) {
    std::copy_n(cast(table).row(0, ids[t]), table.cols, out.row(static_cast<int64_t>(t)));
  }
}

void ReferenceDevice::matmul(Mat x, std::span<const MatmulTarget> targets) {
  checks::matmul(x, targets);
  for (const MatmulTarget& target : targets) {
    for (int64_t t = 0; t < x.rows; ++t)
      multiply_row(x.row(t), cast(*target.weight), 0, target.bias, target.out.row(t));
  }
}

void ReferenceDevice::matmul_experts(Mat x, const Weight& weight, const float* bias, std::span<const ExpertRows> groups,
                                     Mat out) {
  checks::matmul_experts(x, weight, groups, out);
  for (const ExpertRows& group : groups) {
    const float* expert_bias = bias != nullptr ? bias + group.expert * weight.rows : nullptr;
    for (size_t i = 0; i < group.source_rows.size(); ++i) {
      multiply_row(x.row(group.source_rows[i]), cast(weight), group.expert, expert_bias, out.row(group.target_rows[i]));
    }
  }
}

}  // namespace quern
