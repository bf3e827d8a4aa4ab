#include "quant/error.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/status.h"
#include "quant/quantizer.h"
#include "tensor/dequantize.h"

namespace quern {

double QuantError::rms() const {
  return elements == 0 ? 0 : std::sqrt(squares / static_cast<double>(elements));
}

double QuantError::relative_rms() const {
  return source_squares == 0 ? 0 : std::sqrt(squares / source_squares);
}

void QuantError::add(const QuantError& other) {
  elements += other.elements;
  largest = std::max(largest, other.largest);
  squares += other.squares;
  source_squares += other.source_squares;
}

Result<QuantError> rounding_error(DType from, const std::byte* source, int64_t rows, int64_t cols, DType to) {
  const size_t row_bytes = dtype_bytes(from, static_cast<uint64_t>(cols)).value_or(0);
  std::vector<std::byte> rounded(dtype_bytes(to, static_cast<uint64_t>(cols)).value_or(0));
  std::vector<float> floats(static_cast<size_t>(cols)), back(static_cast<size_t>(cols));
  QuantError error{.elements = rows * cols};
  for (int64_t r = 0; r < rows; ++r, source += row_bytes) {
    if (Status status = round_row(from, source, to, cols, floats.data(), rounded.data()); !status) {
      return make_error(status.error().code, fmt::format("row {}: {}", r, status.error().message));
    }
    dequantize(to, rounded.data(), back.data(), cols);
    for (size_t i = 0; i < back.size(); ++i) {
      const double distance = double{back[i]} - floats[i];
      error.largest = std::max(error.largest, std::fabs(distance));
      error.squares += distance * distance;
      error.source_squares += double{floats[i]} * floats[i];
    }
  }
  return error;
}

}  // namespace quern
