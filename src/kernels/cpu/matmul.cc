#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/matmul_float.h"
#include "kernels/cpu/pack.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

const CpuWeight& cpu_weight(const Weight& weight) {
  return static_cast<const CpuWeight&>(weight);
}

bool is_plain_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// x · Wᵀ of one plane for one list of tokens, cut into tasks of row_chunk rows x token_tile tokens.
struct Product {
  const CpuWeight* weight = nullptr;
  int64_t first_row = 0;  // of the plane, as source_row counts
  const float* bias = nullptr;
  RowList x;
  RowList out;
  int64_t num_tokens = 0;

  int64_t row_chunk = 0;
  int64_t token_tile = 0;
  int64_t tasks_end = 0;  // of all products up to this one
  int64_t num_tasks() const { return ceil_div(weight->rows, row_chunk) * ceil_div(num_tokens, token_tile); }
};

// Work that is worth a hand-over between threads: about 30 µs of a core.
constexpr int64_t kTaskMacs = 1 << 20;
// x of one token tile stays in the level 2 cache while the rows of a chunk pass by.
constexpr int64_t kTileBytes = 128 * 1024;

void plan_float(Product& p, int32_t num_threads) {
  const int64_t rows = p.weight->rows;
  const int64_t cols = p.weight->cols;
  p.token_tile = std::clamp<int64_t>(kTileBytes / 4 / cols / 3 * 3, 3, std::max<int64_t>(3, p.num_tokens));
  const int64_t macs_per_row = cols * std::min(p.token_tile, p.num_tokens);
  const int64_t rows_wanted = std::min(kTaskMacs / macs_per_row + 1, ceil_div(rows, 2 * num_threads));
  p.row_chunk = ceil_div(std::max<int64_t>(rows_wanted, 1), kFloatTileRows) * kFloatTileRows;
}

}  // namespace

struct CpuMatmul::Impl {
  std::vector<Product> products;
  std::vector<std::vector<float>> row_scratch;  // per thread: a tile of dequantised rows

  void run(ThreadPool& pool);
  void run_float(const Product& p, int64_t task, int32_t thread);
};

CpuMatmul::CpuMatmul(int32_t num_threads) : impl_(std::make_unique<Impl>()) {
  QUERN_CHECK(num_threads >= 1);
  impl_->row_scratch.resize(static_cast<size_t>(num_threads));
}

CpuMatmul::~CpuMatmul() = default;

Result<std::unique_ptr<Weight>> CpuMatmul::pack_weight(std::span<const WeightRows> parts, int64_t planes,
                                                       Precision /*precision*/, ThreadPool* /*pool*/) {
  return CpuWeight::create(parts, planes);
}

void CpuMatmul::embed(const Weight& table, std::span<const int32_t> ids, Mat out) {
  const CpuWeight& weight = cpu_weight(table);
  QUERN_CHECK(out.cols == weight.cols && out.rows == static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    QUERN_CHECK(ids[i] >= 0 && ids[i] < weight.rows);
    dequantize(weight.dtype, weight.source_row(ids[i]), out.row(static_cast<int64_t>(i)), weight.cols);
  }
}

void CpuMatmul::matmul(ThreadPool& pool, Mat x, std::span<const Device::MatmulTarget> targets) {
  impl_->products.clear();
  if (x.rows == 0) return;
  for (const Device::MatmulTarget& target : targets) {
    const CpuWeight& weight = cpu_weight(*target.weight);
    QUERN_CHECK(weight.planes == 1 && x.cols == weight.cols);
    QUERN_CHECK(target.out.rows == x.rows && target.out.cols == weight.rows);
    impl_->products.push_back({.weight = &weight,
                               .bias = target.bias,
                               .x = {x.data, x.stride},
                               .out = {target.out.data, target.out.stride},
                               .num_tokens = x.rows});
  }
  impl_->run(pool);
}

void CpuMatmul::matmul_experts(ThreadPool& pool, Mat x, const Weight& weight, const float* bias,
                               std::span<const ExpertRows> groups, Mat out) {
  const CpuWeight& experts = cpu_weight(weight);
  QUERN_CHECK(x.cols == experts.cols && out.cols == experts.rows);
  impl_->products.clear();
  for (const ExpertRows& group : groups) {
    QUERN_CHECK(group.expert >= 0 && group.expert < experts.planes);
    QUERN_CHECK(group.source_rows.size() == group.target_rows.size());
    if (group.source_rows.empty()) continue;
    impl_->products.push_back({.weight = &experts,
                               .first_row = group.expert * experts.rows,
                               .bias = bias != nullptr ? bias + group.expert * experts.rows : nullptr,
                               .x = {x.data, x.stride, group.source_rows.data()},
                               .out = {out.data, out.stride, group.target_rows.data()},
                               .num_tokens = static_cast<int64_t>(group.source_rows.size())});
  }
  impl_->run(pool);
}

void CpuMatmul::Impl::run(ThreadPool& pool) {
  QUERN_CHECK(static_cast<size_t>(pool.num_threads()) <= row_scratch.size());
  int64_t num_tasks = 0;
  for (Product& p : products) {
    plan_float(p, pool.num_threads());
    num_tasks += p.num_tasks();
    p.tasks_end = num_tasks;
  }
  pool.run(num_tasks, [this](int64_t task, int32_t thread) {
    const auto p = std::upper_bound(products.begin(), products.end(), task,
                                    [](int64_t value, const Product& product) { return value < product.tasks_end; });
    run_float(*p, task - (p->tasks_end - p->num_tasks()), thread);
  });
}

void CpuMatmul::Impl::run_float(const Product& p, int64_t task, int32_t thread) {
  const CpuWeight& weight = *p.weight;
  const int64_t token_tiles = ceil_div(p.num_tokens, p.token_tile);
  const int64_t row_begin = task / token_tiles * p.row_chunk;
  const int64_t row_end = std::min(row_begin + p.row_chunk, weight.rows);
  const int64_t token_begin = task % token_tiles * p.token_tile;

  FloatTile tile;
  tile.dtype = is_plain_float(weight.dtype) ? weight.dtype : DType::kF32;
  tile.cols = weight.cols;
  tile.num_tokens = std::min(p.token_tile, p.num_tokens - token_begin);
  tile.x = p.x.from(token_begin);
  tile.out = p.out.from(token_begin);
  std::vector<float>& scratch = row_scratch[static_cast<size_t>(thread)];
  for (int64_t row = row_begin; row < row_end; row += kFloatTileRows) {
    tile.num_rows = std::min(kFloatTileRows, row_end - row);
    tile.column = row;
    tile.bias = p.bias != nullptr ? p.bias + row : nullptr;
    for (int64_t i = 0; i < tile.num_rows; ++i) {
      const std::byte* source = weight.source_row(p.first_row + row + i);
      if (!is_plain_float(weight.dtype)) {
        scratch.resize(static_cast<size_t>(kFloatTileRows * weight.cols));
        float* floats = scratch.data() + i * weight.cols;
        dequantize(weight.dtype, source, floats, weight.cols);
        source = reinterpret_cast<const std::byte*>(floats);
      }
      tile.rows[i] = source;
    }
    float_tile_product(tile);
  }
}

}  // namespace quern
