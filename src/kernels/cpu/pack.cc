#include "kernels/cpu/pack.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/matmul_bf16.h"
#include "kernels/cpu/pack_rows.h"
#include "kernels/cpu/packed_size.h"

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

constexpr size_t kHugePage = size_t{2} << 20;

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

size_t packed_bytes(const Weight& weight) {
  const bool is_bf16 = packs_to_bf16(weight.dtype);
  if (!is_bf16 && packed_layout(weight.dtype).record_blocks == 0) return 0;
  const int64_t num_panels = weight.planes * ((weight.rows + kPanelRows - 1) / kPanelRows);
  const size_t panel = is_bf16 ? bf16_panel_bytes(weight.cols) : panel_bytes(weight.dtype, weight.cols);
  return static_cast<size_t>(num_panels) * panel;
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
  const auto pack_some = [&](int64_t task, int32_t /*thread*/) {
    const int64_t end = std::min((task + 1) * kPanelsPerTask, num_panels);
    for (int64_t i = task * kPanelsPerTask; i < end; ++i) {
      const int64_t plane = i / panels_per_plane_;
      const int64_t first = i % panels_per_plane_ * kPanelRows;
      const int64_t count = std::min(kPanelRows, rows - first);
      const std::byte* sources[kPanelRows];
      for (int64_t r = 0; r < count; ++r) sources[r] = source_row(plane * rows + first + r);
      std::byte* panel = panels_.data() + static_cast<size_t>(i) * panel_bytes_;
      if (is_bf16_) {
        pack_bf16_panel(dtype, sources, count, cols, panel);
      } else {
        pack_panel(dtype, sources, count, cols, panel);
      }
    }
  };
  const int64_t num_tasks = (num_panels + kPanelsPerTask - 1) / kPanelsPerTask;
  if (pool != nullptr) {
    pool->run(num_tasks, pack_some);
  } else {
    for (int64_t task = 0; task < num_tasks; ++task) pack_some(task, 0);
  }
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
