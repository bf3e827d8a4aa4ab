// A named, typed view of bytes that somebody else owns (a mapped file, a buffer). Copying it copies no data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace quern {

// Row-major, outermost dimension first, as PyTorch and safetensors write it; GGUF's reversed order is turned round by
// its reader. A matrix that maps `in` features to `out` features is [out, in]. At most kMaxDims dimensions.
using Shape = std::vector<int64_t>;
inline constexpr size_t kMaxDims = 8;

// Product of the dimensions (1 for a scalar). The readers have checked that it does not overflow.
inline int64_t num_elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}
std::string shape_string(const Shape& shape);  // "[49152, 576]"

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  // exactly dtype_bytes(dtype, num_elements(shape)); alignment of 1 only

  int64_t elements() const { return num_elements(shape); }
};

}  // namespace quern
