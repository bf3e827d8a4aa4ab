#include "kernels/cpu/matmul_quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/pack_layout.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/dot_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_quant.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/matmul_quant-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {

void quantize(RowList x, const ActTile& tile, int64_t begin, int64_t end) {
  quantize_tokens(x, tile, begin, end);
}

void products(const PanelRun& run) {
  switch (run.dtype) {
    case DType::kQ1_0: return run_panels<DType::kQ1_0>(run);
    case DType::kQ2_0: return run_panels<DType::kQ2_0>(run);
    case DType::kQ4_0: return run_panels<DType::kQ4_0>(run);
    case DType::kQ4_1: return run_panels<DType::kQ4_1>(run);
    case DType::kQ5_0: return run_panels<DType::kQ5_0>(run);
    case DType::kQ5_1: return run_panels<DType::kQ5_1>(run);
    case DType::kQ8_0: return run_panels<DType::kQ8_0>(run);
    case DType::kQ2K: return run_panels<DType::kQ2K>(run);
    case DType::kQ3K: return run_panels<DType::kQ3K>(run);
    case DType::kQ4K: return run_panels<DType::kQ4K>(run);
    case DType::kQ5K: return run_panels<DType::kQ5K>(run);
    case DType::kQ6K: return run_panels<DType::kQ6K>(run);
    case DType::kIQ4NL: return run_panels<DType::kIQ4NL>(run);
    case DType::kIQ4XS: return run_panels<DType::kIQ4XS>(run);
    case DType::kTQ1_0:
    case DType::kTQ2_0: return run_panels<DType::kTQ2_0>(run);
    case DType::kMXFP4: return run_panels<DType::kMXFP4>(run);
    case DType::kNVFP4: return run_panels<DType::kNVFP4>(run);
    default: QUERN_CHECK(packed_layout(run.dtype).record_blocks > 0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern {

HWY_EXPORT(quantize);
HWY_EXPORT(products);

size_t ActTile::bytes(int64_t num_tokens, int64_t num_blocks) {
  const size_t one = kBlockCols + 2 * sizeof(float) + 3 * sizeof(int32_t);
  return (static_cast<size_t>(num_tokens * num_blocks) * one + 63) / 64 * 64;
}

ActTile::ActTile(std::byte* memory, int64_t tokens, int64_t blocks)
    : num_tokens(tokens), num_blocks(blocks), codes(reinterpret_cast<int8_t*>(memory)) {
  const int64_t count = tokens * blocks;
  scale = reinterpret_cast<float*>(memory + count * kBlockCols);
  scaled_sum = scale + count;
  neg_sum = reinterpret_cast<int32_t*>(scaled_sum + count);
  neg_half[0] = neg_sum + count;
  neg_half[1] = neg_half[0] + count;
}

void quantize_rows(RowList x, const ActTile& tile, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(quantize)(x, tile, begin, end);
}
void panel_products(const PanelRun& run) {
  HWY_DYNAMIC_DISPATCH(products)(run);
}

}  // namespace quern
#endif
