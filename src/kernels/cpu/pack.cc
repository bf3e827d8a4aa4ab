#include "kernels/cpu/pack.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/status.h"

namespace quern {
namespace {

bool is_matrix_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF64:
    case DType::kF8E4M3:
    case DType::kF8E5M2: return true;
    default: return is_quantized(dtype);
  }
}

}  // namespace

Result<std::unique_ptr<CpuWeight>> CpuWeight::create(std::span<const WeightRows> parts, int64_t planes) {
  if (parts.empty() || planes < 1) return invalid_argument("weight: no rows to pack");
  const WeightRows& first = parts.front();
  const DTypeInfo& info = dtype_info(first.dtype);
  if (!is_matrix_type(first.dtype)) {
    return invalid_argument(fmt::format("weight: {} is no type of a weight matrix", info.name));
  }
  if (first.cols < 1 || first.cols % info.block_elements != 0) {
    return invalid_argument(fmt::format("weight: {} columns are not a multiple of the {} of a {} block", first.cols,
                                        info.block_elements, info.name));
  }
  const std::optional<uint64_t> row_bytes = dtype_bytes(first.dtype, static_cast<uint64_t>(first.cols));
  if (!row_bytes) return invalid_argument(fmt::format("weight: {} columns overflow", first.cols));

  auto weight = std::make_unique<CpuWeight>();
  int64_t rows = 0;
  for (const WeightRows& part : parts) {
    if (part.dtype != first.dtype || part.cols != first.cols) {
      return invalid_argument(fmt::format("weight: parts differ: {} x {} columns and {} x {} columns", info.name,
                                          first.cols, dtype_info(part.dtype).name, part.cols));
    }
    if (part.rows < 0 || part.rows > std::numeric_limits<int64_t>::max() / 2 - rows) {
      return invalid_argument(fmt::format("weight: a part of {} rows", part.rows));
    }
    if (part.rows == 0) continue;
    weight->parts_.push_back({rows, part.bytes});
    rows += part.rows;
  }
  if (rows == 0 || rows % planes != 0) {
    return invalid_argument(fmt::format("weight: {} rows for {} planes", rows, planes));
  }
  weight->planes = planes;
  weight->rows = rows / planes;
  weight->cols = first.cols;
  weight->dtype = first.dtype;
  weight->source_row_bytes_ = *row_bytes;
  return weight;
}

const std::byte* CpuWeight::source_row(int64_t index) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), index,
                                      [](int64_t row, const Part& part) { return row < part.row_begin; });
  QUERN_DCHECK(after != parts_.begin());
  const Part& part = *(after - 1);
  return part.bytes + static_cast<size_t>(index - part.row_begin) * source_row_bytes_;
}

}  // namespace quern
