#include "kernels/cpu/matmul_bf16.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/pack_layout.h"
#include "kernels/cpu/tiles.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/float_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_bf16.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// Round to nearest even; NaN stays NaN.
HWY_INLINE void store_rounded(VF x, uint16_t* out) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_nan = hn::Gt(hn::BitCast(di, hn::Abs(x)), hn::Set(di, 0x7f800000));
  const auto kept = hn::IfThenElse(hn::RebindMask(du, is_nan), quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(kept))), d16, out);
}

void round_floats(const float* x, int64_t count, uint16_t* out) {
  const DF d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_rounded(hn::LoadU(d, x + i), out + i);
  if (i < count) {
    alignas(64) float tail[16] = {};
    uint16_t rounded[16];
    std::copy(x + i, x + count, tail);
    store_rounded(hn::Load(d, tail), rounded);
    std::copy(rounded, rounded + (count - i), out + i);
  }
}

void round_halves(const std::byte* x, int64_t count, uint16_t* out) {
  const DF d;
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<hwy::float16_t, DF> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* p = reinterpret_cast<const uint16_t*>(x);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_rounded(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(d16, p + i))), out + i);
  }
  if (i < count) {
    uint16_t tail[16] = {};
    uint16_t rounded[16];
    std::memcpy(tail, p + i, static_cast<size_t>(count - i) * 2);
    store_rounded(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(d16, tail))), rounded);
    std::copy(rounded, rounded + (count - i), out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern {
namespace {

HWY_EXPORT(round_floats);
HWY_EXPORT(round_halves);

#if defined(__x86_64__)

constexpr int64_t kTileTokensMax = 16;
constexpr int64_t kTileBytes = 1024;
// Activations that a thread keeps in its level 2 cache while panels pass by.
constexpr int64_t kChunkBytes = int64_t{512} << 10;

// Sums of kTokens tiles of 16 tokens with kPanels panels, into sums[token tile * 2 + panel].
template <int kTokenTiles, int kPanels>
void multiply_tiles(const Bf16Run& run, const uint16_t* x, const std::byte* panel, float* sums) {
  const int64_t x_bytes = run.x_stride * 2;
  const uint16_t* second = x + kTileTokensMax * run.x_stride;
  cpu::tile_zero<0>();
  if constexpr (kPanels > 1) cpu::tile_zero<1>();
  if constexpr (kTokenTiles > 1) cpu::tile_zero<2>();
  if constexpr (kTokenTiles > 1 && kPanels > 1) cpu::tile_zero<3>();
  for (int64_t k = 0; k < run.x_stride; k += kBf16TileCols, panel += kTileBytes) {
    cpu::tile_load<6>(panel, 64);
    if constexpr (kPanels > 1) cpu::tile_load<7>(panel + run.panel_bytes, 64);
    cpu::tile_load<4>(x + k, x_bytes);
    cpu::tile_dot_bf16<0, 4, 6>();
    if constexpr (kPanels > 1) cpu::tile_dot_bf16<1, 4, 7>();
    if constexpr (kTokenTiles > 1) {
      cpu::tile_load<5>(second + k, x_bytes);
      cpu::tile_dot_bf16<2, 5, 6>();
      if constexpr (kPanels > 1) cpu::tile_dot_bf16<3, 5, 7>();
    }
  }
  cpu::tile_store<0>(sums, 64);
  if constexpr (kPanels > 1) cpu::tile_store<1>(sums + 256, 64);
  if constexpr (kTokenTiles > 1) cpu::tile_store<2>(sums + 512, 64);
  if constexpr (kTokenTiles > 1 && kPanels > 1) cpu::tile_store<3>(sums + 768, 64);
}

void store_sums(const Bf16Run& run, int64_t first_token, int64_t num_tokens, int64_t first_row, const float* sums) {
  const int64_t rows = std::min(2 * kPanelRows, run.num_rows - first_row);
  for (int64_t t = 0; t < num_tokens; ++t) {
    float* out = run.out.at(first_token + t) + run.column + first_row;
    for (int64_t begin = 0; begin < rows; begin += kPanelRows) {
      const float* from = sums + t / 16 * 512 + begin * 16 + t % 16 * 16;
      for (int64_t r = 0; r < std::min(kPanelRows, rows - begin); ++r) {
        out[begin + r] = run.bias != nullptr ? from[r] + run.bias[first_row + begin + r] : from[r];
      }
    }
  }
}

void multiply(const Bf16Run& run, cpu::TileShapes& shapes, int64_t first_token, int64_t num_tokens, int64_t panel_idx) {
  const uint16_t* x = run.x + first_token * run.x_stride;
  const std::byte* panel = run.panels + static_cast<size_t>(panel_idx) * run.panel_bytes;
  const bool pair = run.num_rows > (panel_idx + 1) * kPanelRows;
  alignas(64) float sums[4 * 256];
  // Rows past the last token are read and dropped.
  shapes.set(num_tokens > 8 ? 16 : static_cast<int>(num_tokens), 64);
  if (num_tokens > kTileTokensMax) {
    pair ? multiply_tiles<2, 2>(run, x, panel, sums) : multiply_tiles<2, 1>(run, x, panel, sums);
  } else {
    pair ? multiply_tiles<1, 2>(run, x, panel, sums) : multiply_tiles<1, 1>(run, x, panel, sums);
  }
  store_sums(run, first_token, num_tokens, panel_idx * kPanelRows, sums);
}

#endif

}  // namespace

bool packs_to_bf16(DType dtype) {
  return (dtype == DType::kF16 || dtype == DType::kBF16) && cpu::has_bf16_tiles() && cpu::use_tiles();
}

size_t bf16_panel_bytes(int64_t cols) {
  return static_cast<size_t>(bf16_stride(cols) * kPanelRows * 2);
}

void pack_bf16_panel(DType dtype, const std::byte* const* rows, int64_t num_rows, int64_t cols, std::byte* panel) {
  const int64_t stride = bf16_stride(cols);
  thread_local std::vector<uint16_t> row;
  row.assign(static_cast<size_t>(stride), 0);
  if (num_rows < kPanelRows) std::memset(panel, 0, bf16_panel_bytes(cols));
  for (int64_t r = 0; r < num_rows; ++r) {
    if (dtype == DType::kBF16) {
      std::memcpy(row.data(), rows[r], static_cast<size_t>(cols) * 2);
    } else {
      HWY_DYNAMIC_DISPATCH(round_halves)(rows[r], cols, row.data());
    }
    for (int64_t pair = 0; pair < stride / 2; ++pair) {
      std::memcpy(panel + 64 * pair + 4 * r, row.data() + 2 * pair, 4);
    }
  }
}

void round_row_to_bf16(const float* x, int64_t cols, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(round_floats)(x, cols, out);
  std::fill(out + cols, out + bf16_stride(cols), uint16_t{0});
}

void bf16_products(const Bf16Run& run) {
#if defined(__x86_64__)
  const int64_t num_panels = (run.num_rows + kPanelRows - 1) / kPanelRows;
  constexpr int64_t kStrip = 2 * kTileTokensMax;
  const int64_t chunk = std::max(kStrip, kChunkBytes / (2 * run.x_stride) / kStrip * kStrip);
  cpu::TileShapes shapes;
  for (int64_t begin = 0; begin < run.num_tokens; begin += chunk) {
    const int64_t end = std::min(begin + chunk, run.num_tokens);
    for (int64_t panel = 0; panel < num_panels; panel += 2) {
      for (int64_t token = begin; token < end; token += kStrip) {
        multiply(run, shapes, token, std::min(kStrip, end - token), panel);
      }
    }
  }
#else
  QUERN_CHECK(run.num_tokens == 0);
#endif
}

}  // namespace quern
#endif  // HWY_ONCE
