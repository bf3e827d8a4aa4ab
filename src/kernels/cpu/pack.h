// A weight of the CPU device: its source rows in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"

namespace quern {

class CpuWeight final : public Weight {
 public:
  // Keeps pointers to the source rows, copies nothing. Errors: kInvalidArgument.
  static Result<std::unique_ptr<CpuWeight>> create(std::span<const WeightRows> parts, int64_t planes);

  // Source bytes of row `index`; rows of all planes are counted through: plane * rows + row.
  const std::byte* source_row(int64_t index) const;
  // Bytes from one source row to the next inside a part.
  size_t source_row_bytes() const { return source_row_bytes_; }

 private:
  struct Part {
    int64_t row_begin;
    const std::byte* bytes;
  };
  std::vector<Part> parts_;  // by row_begin
  size_t source_row_bytes_ = 0;
};

}  // namespace quern
