// How far rounded weights are from what the file holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quern/status.h"
#include "tensor/dtype.h"

namespace quern {

// Sums over as many rows as were added: of one tensor, or of several.
struct QuantError {
  int64_t elements = 0;
  double largest = 0;         // |rounded - source|
  double squares = 0;         // Σ (rounded - source)²
  double source_squares = 0;  // Σ source²

  double rms() const;
  // Of the source's own root mean square: comparable between tensors. 0 for a tensor of zeros.
  double relative_rms() const;
  void add(const QuantError& other);
};

// Of `rows` rows of `cols` elements of `from`, one after the other, rounded to `to`. Errors: those of round_row(), with
// the row's number.
Result<QuantError> rounding_error(DType from, const std::byte* source, int64_t rows, int64_t cols, DType to);

}  // namespace quern
