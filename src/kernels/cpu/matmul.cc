#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/matmul_bf16.h"
#include "kernels/cpu/matmul_float.h"
#include "kernels/cpu/matmul_plan.h"
#include "kernels/cpu/matmul_quant.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pack_rows.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

const CpuWeight& cpu_weight(const Weight& weight) {
  return static_cast<const CpuWeight&>(weight);
}

bool is_plain_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// x · Wᵀ of one plane for one list of tokens.
struct Product {
  const CpuWeight* weight = nullptr;
  int64_t plane = 0;
  const float* bias = nullptr;
  RowList x;
  RowList out;
  int64_t num_tokens = 0;

  int64_t first_tile = 0;      // packed weights: of the quantised x
  int64_t first_bf16_row = 0;  // bfloat16 weights: of the rounded x
  MatmulPlan plan;
  int64_t tasks_end = 0;  // of all products up to this one
};

}  // namespace

struct CpuMatmul::Impl {
  std::vector<Product> products;
  std::vector<std::vector<float>> row_scratch;  // per thread: a tile of dequantised rows
  std::vector<ActTile> tiles;
  std::vector<RowList> tile_rows;  // of x, per tile
  std::vector<std::byte> tile_memory;
  std::vector<RowList> bf16_sources;  // one row each
  std::vector<uint16_t> bf16_rows;

  void add_tiles(RowList x, int64_t num_tokens, int64_t cols);
  void quantize_tiles(ThreadPool& pool, int64_t cols);
  int64_t add_bf16_rows(RowList x, int64_t num_tokens);
  void round_bf16_rows(ThreadPool& pool, int64_t cols);
  void run(ThreadPool& pool);
  void run_float(const Product& p, const MatmulPlan::Part& part, int32_t thread);
  void run_packed(const Product& p, const MatmulPlan::Part& part);
  void run_bf16(const Product& p, const MatmulPlan::Part& part);
};

CpuMatmul::CpuMatmul(int32_t num_threads) : impl_(std::make_unique<Impl>()) {
  QUERN_CHECK(num_threads >= 1);
  impl_->row_scratch.resize(static_cast<size_t>(num_threads));
}

CpuMatmul::~CpuMatmul() = default;

Result<std::unique_ptr<Weight>> CpuMatmul::pack_weight(std::span<const WeightRows> parts, int64_t planes,
                                                       const WeightForm& form, ThreadPool* pool) {
  QUERN_ASSIGN(std::unique_ptr<CpuWeight> weight, CpuWeight::create(parts, planes, form.dtype));
  if (form.precision == Precision::kFast) QUERN_TRY(weight->pack(pool));
  QUERN_TRY(weight->round_in_place(pool));
  return weight;
}

void CpuMatmul::embed(const Weight& table, std::span<const int32_t> ids, Mat out) {
  const CpuWeight& weight = cpu_weight(table);
  QUERN_CHECK(out.cols == weight.cols && out.rows == static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i];
    QUERN_CHECK(id >= 0 && id < weight.rows);
    float* target = out.row(static_cast<int64_t>(i));
    if (weight.is_packed()) {
      unpack_panel_row(weight.dtype, weight.panel(0, id / kPanelRows), id % kPanelRows, weight.cols, target);
    } else {
      QUERN_CHECK(!weight.is_rounded());
      dequantize(weight.dtype, weight.source_row(id), target, weight.cols);
    }
  }
}

void CpuMatmul::matmul(ThreadPool& pool, Mat x, std::span<const Device::MatmulTarget> targets) {
  impl_->products.clear();
  impl_->tile_rows.clear();
  impl_->bf16_sources.clear();
  if (x.rows == 0) return;
  for (const Device::MatmulTarget& target : targets) {
    const CpuWeight& weight = cpu_weight(*target.weight);
    QUERN_CHECK(weight.planes == 1 && x.cols == weight.cols);
    QUERN_CHECK(target.out.rows == x.rows && target.out.cols == weight.rows);
    if (weight.is_packed() && impl_->tile_rows.empty()) impl_->add_tiles({x.data, x.stride}, x.rows, x.cols);
    if (weight.is_bf16() && impl_->bf16_sources.empty()) impl_->add_bf16_rows({x.data, x.stride}, x.rows);
    impl_->products.push_back({.weight = &weight,
                               .bias = target.bias,
                               .x = {x.data, x.stride},
                               .out = {target.out.data, target.out.stride},
                               .num_tokens = x.rows});
  }
  impl_->quantize_tiles(pool, x.cols);
  impl_->round_bf16_rows(pool, x.cols);
  impl_->run(pool);
}

void CpuMatmul::matmul_experts(ThreadPool& pool, Mat x, const Weight& weight, const float* bias,
                               std::span<const ExpertRows> groups, Mat out) {
  const CpuWeight& experts = cpu_weight(weight);
  QUERN_CHECK(x.cols == experts.cols && out.cols == experts.rows);
  impl_->products.clear();
  impl_->tile_rows.clear();
  impl_->bf16_sources.clear();
  for (const ExpertRows& group : groups) {
    QUERN_CHECK(group.expert >= 0 && group.expert < experts.planes);
    QUERN_CHECK(group.source_rows.size() == group.target_rows.size());
    if (group.source_rows.empty()) continue;
    Product p{.weight = &experts,
              .plane = group.expert,
              .bias = bias != nullptr ? bias + group.expert * experts.rows : nullptr,
              .x = {x.data, x.stride, group.source_rows.data()},
              .out = {out.data, out.stride, group.target_rows.data()},
              .num_tokens = static_cast<int64_t>(group.source_rows.size()),
              .first_tile = static_cast<int64_t>(impl_->tile_rows.size())};
    if (experts.is_packed()) impl_->add_tiles(p.x, p.num_tokens, x.cols);
    if (experts.is_bf16()) p.first_bf16_row = impl_->add_bf16_rows(p.x, p.num_tokens);
    impl_->products.push_back(p);
  }
  impl_->quantize_tiles(pool, x.cols);
  impl_->round_bf16_rows(pool, x.cols);
  impl_->run(pool);
}

void CpuMatmul::Impl::add_tiles(RowList x, int64_t num_tokens, int64_t cols) {
  if (tile_rows.empty()) tiles.clear();
  for (int64_t t = 0; t < num_tokens; t += kTileTokens) {
    tile_rows.push_back(x.from(t));
    // Where it lies is known when all tiles are: quantize_tiles.
    tiles.emplace_back(nullptr, std::min(kTileTokens, num_tokens - t), cols / kBlockCols);
  }
}

void CpuMatmul::Impl::quantize_tiles(ThreadPool& pool, int64_t cols) {
  if (tile_rows.empty()) return;
  size_t bytes = 64 + ActTile::kSlackBytes;
  int64_t num_tokens = 0;
  for (const ActTile& tile : tiles) {
    bytes += ActTile::bytes(tile.num_tokens, tile.num_blocks);
    num_tokens += tile.num_tokens;
  }
  if (tile_memory.size() < bytes) tile_memory.resize(bytes);
  auto at = reinterpret_cast<uintptr_t>(tile_memory.data());
  at = (at + 63) / 64 * 64;
  for (ActTile& tile : tiles) {
    tile = ActTile(reinterpret_cast<std::byte*>(at), tile.num_tokens, tile.num_blocks);
    at += ActTile::bytes(tile.num_tokens, tile.num_blocks);
  }
  // A task's tokens have whole cache lines of the tile to themselves, as long as tiles are full.
  constexpr int64_t kTokensPerTask = 16;
  constexpr int64_t kTasksPerTile = kTileTokens / kTokensPerTask;
  const auto quantize = [this](int64_t task, int32_t /*thread*/) {
    const auto i = static_cast<size_t>(task / kTasksPerTile);
    const int64_t begin = task % kTasksPerTile * kTokensPerTask;
    const int64_t end = std::min(begin + kTokensPerTask, tiles[i].num_tokens);
    if (begin < end) quantize_rows(tile_rows[i], tiles[i], begin, end);
  };
  const auto num_tasks = static_cast<int64_t>(tiles.size()) * kTasksPerTile;
  // A nanosecond for two elements: below this the hand-over costs more than it saves.
  constexpr int64_t kElementsParallel = 12288;
  if (num_tokens > kTokensPerTask && num_tokens * cols >= kElementsParallel) {
    pool.run(num_tasks, quantize);
  } else {
    for (int64_t task = 0; task < num_tasks; ++task) quantize(task, 0);
  }
}

// Returns the first row's index.
int64_t CpuMatmul::Impl::add_bf16_rows(RowList x, int64_t num_tokens) {
  const auto first = static_cast<int64_t>(bf16_sources.size());
  for (int64_t t = 0; t < num_tokens; ++t) bf16_sources.push_back(x.from(t));
  return first;
}

void CpuMatmul::Impl::round_bf16_rows(ThreadPool& pool, int64_t cols) {
  if (bf16_sources.empty()) return;
  const int64_t stride = bf16_stride(cols);
  const auto num_rows = static_cast<int64_t>(bf16_sources.size());
  const auto elements = static_cast<size_t>((num_rows + kBf16SlackRows) * stride);
  if (bf16_rows.size() < elements) bf16_rows.resize(elements);
  constexpr int64_t kRowsPerTask = 16;
  const auto round_some = [&](int64_t task, int32_t /*thread*/) {
    for (int64_t i = task * kRowsPerTask; i < std::min(num_rows, (task + 1) * kRowsPerTask); ++i) {
      round_row_to_bf16(bf16_sources[static_cast<size_t>(i)].at(0), cols, bf16_rows.data() + i * stride);
    }
  };
  pool.run((num_rows + kRowsPerTask - 1) / kRowsPerTask, round_some);
}

void CpuMatmul::Impl::run(ThreadPool& pool) {
  QUERN_CHECK(static_cast<size_t>(pool.num_threads()) <= row_scratch.size());
  int64_t num_tasks = 0;
  for (Product& p : products) {
    const CpuWeight& w = *p.weight;
    const bool in_panels = w.is_packed() || w.is_bf16();
    p.plan = in_panels ? MatmulPlan::packed(w.rows, w.cols, p.num_tokens, w.panel_bytes(), pool.num_threads())
                       : MatmulPlan::in_place(w.rows, w.cols, p.num_tokens, pool.num_threads());
    num_tasks += p.plan.num_tasks();
    p.tasks_end = num_tasks;
  }
  if (num_tasks == 0) return;
  pool.run(num_tasks, [this](int64_t task, int32_t thread) {
    const auto p = std::upper_bound(products.begin(), products.end(), task,
                                    [](int64_t value, const Product& product) { return value < product.tasks_end; });
    const MatmulPlan::Part part = p->plan.part(task - (p->tasks_end - p->plan.num_tasks()));
    if (p->weight->is_packed()) {
      run_packed(*p, part);
    } else if (p->weight->is_bf16()) {
      run_bf16(*p, part);
    } else {
      run_float(*p, part, thread);
    }
  });
}

void CpuMatmul::Impl::run_float(const Product& p, const MatmulPlan::Part& part, int32_t thread) {
  const CpuWeight& weight = *p.weight;
  const bool in_place = is_plain_float(weight.dtype);
  std::vector<float>& scratch = row_scratch[static_cast<size_t>(thread)];
  const auto scratch_floats = static_cast<size_t>(kFloatTileRows * weight.cols);
  if (!in_place && scratch.size() < scratch_floats) scratch.resize(scratch_floats);

  FloatTile tile;
  tile.dtype = in_place ? weight.dtype : DType::kF32;
  tile.cols = weight.cols;
  tile.num_tokens = part.token_end - part.token_begin;
  tile.x = p.x.from(part.token_begin);
  tile.out = p.out.from(part.token_begin);
  for (int64_t row = part.row_begin; row < part.row_end; row += kFloatTileRows) {
    tile.num_rows = std::min(kFloatTileRows, part.row_end - row);
    tile.column = row;
    tile.bias = p.bias != nullptr ? p.bias + row : nullptr;
    for (int64_t i = 0; i < tile.num_rows; ++i) {
      const std::byte* source = weight.source_row(p.plane * weight.rows + row + i);
      if (!in_place) {
        float* floats = scratch.data() + i * weight.cols;
        dequantize(weight.dtype, source, floats, weight.cols);
        source = reinterpret_cast<const std::byte*>(floats);
      }
      tile.rows[i] = source;
    }
    float_tile_product(tile);
  }
}

void CpuMatmul::Impl::run_packed(const Product& p, const MatmulPlan::Part& part) {
  const CpuWeight& weight = *p.weight;
  PanelRun run;
  run.dtype = weight.dtype;
  run.panels = weight.panel(p.plane, part.row_begin / kPanelRows);
  run.panel_bytes = weight.panel_bytes();
  run.num_rows = part.row_end - part.row_begin;
  run.column = part.row_begin;
  run.bias = p.bias != nullptr ? p.bias + part.row_begin : nullptr;
  run.tiles = &tiles[static_cast<size_t>(p.first_tile + part.token_begin / kTileTokens)];
  run.num_tiles = (part.token_end - part.token_begin + kTileTokens - 1) / kTileTokens;
  run.out = p.out.from(part.token_begin);
  panel_products(run);
}

void CpuMatmul::Impl::run_bf16(const Product& p, const MatmulPlan::Part& part) {
  const CpuWeight& weight = *p.weight;
  Bf16Run run;
  run.panels = weight.panel(p.plane, part.row_begin / kPanelRows);
  run.panel_bytes = weight.panel_bytes();
  run.num_rows = part.row_end - part.row_begin;
  run.x_stride = bf16_stride(weight.cols);
  run.x = bf16_rows.data() + (p.first_bf16_row + part.token_begin) * run.x_stride;
  run.num_tokens = part.token_end - part.token_begin;
  run.out = p.out.from(part.token_begin);
  run.column = part.row_begin;
  run.bias = p.bias != nullptr ? p.bias + part.row_begin : nullptr;
  bf16_products(run);
}

}  // namespace quern
