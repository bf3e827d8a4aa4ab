// The size a shape asks for, checked: what a file claims is not multiplied before it is known to fit.
#pragma once

#include <cstdint>

#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// Bytes of a tensor. Dimensions must not be negative. Errors (kInvalidFile, beginning with `what`): the product of the
// dimensions, zeros left out so that partial products are safe too, or the byte count does not fit 63 bits; rows are
// not whole blocks.
Result<uint64_t> checked_bytes(DType dtype, const Shape& shape, std::string_view what);

}  // namespace quern
