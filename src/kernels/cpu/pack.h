// A weight of the CPU device: its source rows in place, or packed panels (pack_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hardware/thread_pool.h"
#include "kernels/device.h"

namespace quern {

// Zeroed pages of the system, large ones where it offers them: panels are streamed through once per product.
class PageMemory {
 public:
  PageMemory() = default;
  ~PageMemory();
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  // Once per object. Errors: kResourceExhausted.
  Status allocate(size_t bytes);
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class CpuWeight final : public Weight {
 public:
  // Keeps pointers to the source rows, copies nothing. With `rounded_to`, pack() and round_in_place() give what they
  // would of a source of that type. Errors: kInvalidArgument.
  static Result<std::unique_ptr<CpuWeight>> create(std::span<const WeightRows> parts, int64_t planes,
                                                   std::optional<DType> rounded_to = std::nullopt);

  // Packs all rows into panels. The source of quantised types is not read any more, that of float types for single rows
  // only. Does nothing for a type without a packed form. Runs on `pool` where it is not null. Errors:
  // kResourceExhausted; kInvalidArgument for a row that cannot be rounded.
  Status pack(ThreadPool* pool);

  // Where rows are still to be rounded, holds them as rounded rows: what exact products and types without panels take.
  Status round_in_place(ThreadPool* pool);

  // Whether source rows are of another type than `dtype`, because panels were rounded from them.
  bool is_rounded() const { return dtype != source_dtype_; }

  // Source bytes of row `index`; rows of all planes are counted through: plane * rows + row.
  const std::byte* source_row(int64_t index) const;

  // As panels of quantised blocks (pack_layout.h), or of bfloat16 (matmul_bf16.h); else in place.
  bool is_packed() const { return panels_.data() != nullptr && !is_bf16_; }
  bool is_bf16() const { return is_bf16_; }
  // Panels of one plane lie one after the other; each plane starts a panel of its own.
  const std::byte* panel(int64_t plane, int64_t panel_idx) const {
    return panels_.data() + static_cast<size_t>(plane * panels_per_plane_ + panel_idx) * panel_bytes_;
  }
  size_t panel_bytes() const { return panel_bytes_; }

 private:
  struct Part {
    int64_t row_begin;
    const std::byte* bytes;
  };
  class Rounder;

  std::vector<Part> parts_;  // by row_begin
  DType source_dtype_ = DType::kF32;
  size_t source_row_bytes_ = 0;
  PageMemory rows_;  // rounded, where no panels are
  PageMemory panels_;
  bool is_bf16_ = false;
  size_t panel_bytes_ = 0;
  int64_t panels_per_plane_ = 0;
};

}  // namespace quern
