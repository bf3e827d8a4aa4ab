#include "kernels/cpu/pack.h"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/matmul_bf16.h"
#include "kernels/cpu/pack_rows.h"
#include "kernels/cpu/packed_size.h"
#include "kernels/host_memory.h"
#include "quant/quantizer.h"

namespace quern {
namespace {

bool is_matrix_type(DType dtype) {
  return is_rounding_source(dtype) || is_quantized(dtype);
}

}  // namespace

PageMemory::~PageMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Status PageMemory::allocate(size_t bytes) {
  QUERN_CHECK(data_ == nullptr && bytes > 0);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("no memory for {} bytes of packed weights", bytes));
  }
  // Only a hint; without it every 4 KiB of a stream costs a walk through the page table.
  if (bytes >= kHugePage) ::madvise(data, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  size_ = bytes;
  return {};
}

// Rows of the wanted type, rounded into scratch of one task where the source is of another.
class CpuWeight::Rounder {
 public:
  explicit Rounder(const CpuWeight& weight)
      : weight_(weight), row_bytes_(dtype_bytes(weight.dtype, static_cast<uint64_t>(weight.cols)).value_or(0)) {}

  size_t row_bytes() const { return row_bytes_; }

  // Null after a row that cannot be rounded: status() tells. Valid until the next call for the same `slot`.
  const std::byte* row(int64_t index, int64_t slot) {
    const std::byte* source = weight_.source_row(index);
    if (!weight_.is_rounded()) return source;
    rows_.resize(static_cast<size_t>(kPanelRows) * row_bytes_);
    std::byte* target = rows_.data() + static_cast<size_t>(slot) * row_bytes_;
    return round(index, target) ? target : nullptr;
  }

  bool round(int64_t index, std::byte* target) {
    floats_.resize(static_cast<size_t>(weight_.cols));
    status_ = round_row(weight_.source_dtype_, weight_.source_row(index), weight_.dtype, weight_.cols, floats_.data(),
                        target);
    if (!status_) status_ = invalid_argument(fmt::format("row {}: {}", index, status_.error().message));
    return status_.has_value();
  }
  const Status& status() const { return status_; }

 private:
  const CpuWeight& weight_;
  size_t row_bytes_;
  std::vector<float> floats_;
  std::vector<std::byte> rows_;
  Status status_;
};

namespace {

// The failure of the first task that had one, whatever the order they ran in.
class FirstFailure {
 public:
  void note(int64_t task, const Status& status) {
    if (status) return;
    const std::lock_guard lock(mutex_);
    if (task >= task_) return;
    task_ = task;
    status_ = status;
  }
  Status take() { return std::move(status_); }

 private:
  std::mutex mutex_;
  int64_t task_ = std::numeric_limits<int64_t>::max();
  Status status_;
};

void run_tasks(ThreadPool* pool, int64_t num_tasks, const std::function<void(int64_t task, int32_t thread)>& body) {
  if (pool != nullptr) return pool->run(num_tasks, body);
  for (int64_t task = 0; task < num_tasks; ++task) body(task, 0);
}

}  // namespace

Result<std::unique_ptr<CpuWeight>> CpuWeight::create(std::span<const WeightRows> parts, int64_t planes,
                                                     std::optional<DType> rounded_to) {
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
  if (rounded_to) {
    const DTypeInfo& wanted = dtype_info(*rounded_to);
    if (*rounded_to != first.dtype && (!is_rounding_source(first.dtype) || !is_rounding_target(*rounded_to))) {
      return invalid_argument(fmt::format("weight: {} is not rounded to {}", info.name, wanted.name));
    }
    if (first.cols % wanted.block_elements != 0) {
      return invalid_argument(fmt::format("weight: {} columns are not a multiple of the {} of a {} block", first.cols,
                                          wanted.block_elements, wanted.name));
    }
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
  weight->dtype = rounded_to.value_or(first.dtype);
  weight->source_dtype_ = first.dtype;
  weight->source_row_bytes_ = *row_bytes;
  return weight;
}

size_t packed_bytes(const Weight& weight) {
  const bool is_bf16 = packs_to_bf16(weight.dtype);
  if (!is_bf16 && packed_layout(weight.dtype).record_blocks == 0) return 0;
  const int64_t num_panels = weight.planes * ((weight.rows + kPanelRows - 1) / kPanelRows);
  const size_t panel = is_bf16 ? bf16_panel_bytes(weight.cols) : panel_bytes(weight.dtype, weight.cols);
  return static_cast<size_t>(num_panels) * panel;
}

size_t rounded_bytes(const Weight& weight) {
  const auto elements = static_cast<uint64_t>(weight.planes * weight.rows) * static_cast<uint64_t>(weight.cols);
  return static_cast<size_t>(dtype_bytes(weight.dtype, elements).value_or(0));
}

Status CpuWeight::pack(ThreadPool* pool) {
  const size_t bytes = packed_bytes(*this);
  if (bytes == 0) return {};
  is_bf16_ = packs_to_bf16(dtype);
  panels_per_plane_ = (rows + kPanelRows - 1) / kPanelRows;
  const int64_t num_panels = planes * panels_per_plane_;
  panel_bytes_ = bytes / static_cast<size_t>(num_panels);
  QUERN_TRY(panels_.allocate(bytes));
  device_bytes = panels_.size();

  constexpr int64_t kPanelsPerTask = 4;
  FirstFailure failure;
  const auto pack_some = [&](int64_t task, int32_t /*thread*/) {
    Rounder rounder(*this);
    const int64_t end = std::min((task + 1) * kPanelsPerTask, num_panels);
    for (int64_t i = task * kPanelsPerTask; i < end; ++i) {
      const int64_t plane = i / panels_per_plane_;
      const int64_t first = i % panels_per_plane_ * kPanelRows;
      const int64_t count = std::min(kPanelRows, rows - first);
      const std::byte* sources[kPanelRows];
      for (int64_t r = 0; r < count; ++r) {
        sources[r] = rounder.row(plane * rows + first + r, r);
        if (sources[r] == nullptr) return failure.note(task, rounder.status());
      }
      std::byte* panel = panels_.data() + static_cast<size_t>(i) * panel_bytes_;
      if (is_bf16_) {
        pack_bf16_panel(dtype, sources, count, cols, panel);
      } else {
        pack_panel(dtype, sources, count, cols, panel);
      }
    }
  };
  run_tasks(pool, (num_panels + kPanelsPerTask - 1) / kPanelsPerTask, pack_some);
  return failure.take();
}

Status CpuWeight::round_in_place(ThreadPool* pool) {
  if (!is_rounded() || panels_.data() != nullptr) return {};
  const size_t row_bytes = Rounder(*this).row_bytes();
  const int64_t num_rows = planes * rows;
  QUERN_TRY(rows_.allocate(static_cast<size_t>(num_rows) * row_bytes));
  constexpr int64_t kRowsPerTask = 64;
  FirstFailure failure;
  run_tasks(pool, (num_rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int32_t /*thread*/) {
    Rounder rounder(*this);
    for (int64_t i = task * kRowsPerTask; i < std::min(num_rows, (task + 1) * kRowsPerTask); ++i) {
      if (!rounder.round(i, rows_.data() + static_cast<size_t>(i) * row_bytes)) {
        return failure.note(task, rounder.status());
      }
    }
  });
  QUERN_TRY(failure.take());
  parts_ = {{0, rows_.data()}};
  source_dtype_ = dtype;
  source_row_bytes_ = row_bytes;
  device_bytes = rows_.size();
  return {};
}

const std::byte* CpuWeight::source_row(int64_t index) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), index,
                                      [](int64_t row, const Part& part) { return row < part.row_begin; });
  QUERN_DCHECK(after != parts_.begin());
  const Part& part = *(after - 1);
  return part.bytes + static_cast<size_t>(index - part.row_begin) * source_row_bytes_;
}

}  // namespace quern
