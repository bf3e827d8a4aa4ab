#include "models/interleaved_experts.h"

#include <cstring>

#include "base/status.h"

namespace quern {
namespace {

constexpr int64_t kMxElements = 32;
constexpr size_t kMxBytes = 17;
constexpr size_t kMxNibbleBytes = 16;

// Rows first, first + step, … of each expert of a projection.
struct RowPick {
  int64_t first = 0;
  int64_t step = 1;
};
struct ExpertShape {
  int64_t experts = 0;
  int64_t file_rows = 0;  // of one expert in the file
  int64_t rows = 0;       // taken
  int64_t cols = 0;
};

// [experts, cols, file_rows] → [experts, rows, cols].
WeightRows transpose_experts(TensorBinder& binder, const TensorView& view, const ExpertShape& shape, RowPick pick) {
  const auto element = static_cast<size_t>(dtype_info(view.dtype).block_bytes);
  std::byte* target = binder.host_copy(static_cast<size_t>(shape.experts * shape.rows * shape.cols) * element);
  std::byte* out = target;
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    const std::byte* source = view.bytes.data() + static_cast<size_t>(expert * shape.cols * shape.file_rows) * element;
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t file_row = pick.first + row * pick.step;
      for (int64_t col = 0; col < shape.cols; ++col, out += element) {
        std::memcpy(out, source + static_cast<size_t>(col * shape.file_rows + file_row) * element, element);
      }
    }
  }
  return {view.dtype, shape.experts * shape.rows, shape.cols, target};
}

// blocks [experts, file_rows, cols / 32, 16] and scales [experts, file_rows, cols / 32] → MXFP4 [experts, rows, cols].
WeightRows repack_experts(TensorBinder& binder, const TensorView& blocks, const TensorView& scales,
                          const ExpertShape& shape, RowPick pick) {
  const auto row_blocks = static_cast<size_t>(shape.cols / kMxElements);
  std::byte* target = binder.host_copy(static_cast<size_t>(shape.experts * shape.rows) * row_blocks * kMxBytes);
  std::byte* out = target;
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    for (int64_t row = 0; row < shape.rows; ++row) {
      const auto file_row = static_cast<size_t>(expert * shape.file_rows + pick.first + row * pick.step);
      for (size_t b = file_row * row_blocks; b < (file_row + 1) * row_blocks; ++b, out += kMxBytes) {
        repack_mxfp4_block(blocks.bytes.data() + b * kMxNibbleBytes, scales.bytes[b], out);
      }
    }
  }
  return {DType::kMXFP4, shape.experts * shape.rows, shape.cols, target};
}

Status bind_projection(TensorBinder& binder, const std::string& name, const ExpertShape& shape,
                       std::span<const RowPick> picks, std::span<Linear* const> targets) {
  QUERN_ASSIGN(const std::vector<float> biases, binder.take_floats(name + "_bias", {shape.experts, shape.file_rows}));
  const bool is_mxfp4 = binder.file().find(name + "_blocks") != nullptr;
  TensorView plain, blocks, scales;
  if (is_mxfp4) {
    if (shape.cols % kMxElements != 0) {
      return invalid_file(fmt::format("{}_blocks: {} columns are not whole blocks of 32", name, shape.cols));
    }
    const int64_t row_blocks = shape.cols / kMxElements;
    QUERN_ASSIGN(blocks, binder.take(name + "_blocks", {shape.experts, shape.file_rows, row_blocks, 16}));
    QUERN_ASSIGN(scales, binder.take(name + "_scales", {shape.experts, shape.file_rows, row_blocks}));
    if (blocks.dtype != DType::kU8 || scales.dtype != DType::kU8) {
      return invalid_file(fmt::format("{}_blocks and _scales must be U8", name));
    }
  } else {
    QUERN_ASSIGN(plain, binder.take(name, {shape.experts, shape.cols, shape.file_rows}));
    if (is_quantized(plain.dtype))
      return invalid_file(fmt::format("tensor {} is quantised along the wrong dimension", name));
  }
  for (size_t i = 0; i < picks.size(); ++i) {
    const WeightRows rows = is_mxfp4 ? repack_experts(binder, blocks, scales, shape, picks[i])
                                     : transpose_experts(binder, plain, shape, picks[i]);
    QUERN_ASSIGN(targets[i]->weight, binder.pack({&rows, 1}, shape.experts, binder.precision(), name));
    std::vector<float> picked;
    for (int64_t expert = 0; expert < shape.experts; ++expert) {
      for (int64_t row = 0; row < shape.rows; ++row) {
        picked.push_back(biases[static_cast<size_t>(expert * shape.file_rows + picks[i].first + row * picks[i].step)]);
      }
    }
    QUERN_ASSIGN(targets[i]->bias, binder.upload(picked));
  }
  return {};
}

}  // namespace

void repack_mxfp4_block(const std::byte* nibbles, std::byte scale, std::byte* target) {
  target[0] = scale;
  const auto element = [&](size_t i) { return (nibbles[i / 2] >> (i % 2 == 0 ? 0 : 4)) & std::byte{0x0F}; };
  for (size_t i = 0; i < kMxNibbleBytes; ++i) target[1 + i] = element(i) | (element(i + kMxNibbleBytes) << 4);
}

Status bind_interleaved_experts(TensorBinder& binder, const ModelConfig& config, int32_t layer, MoeWeights& out) {
  const int64_t experts = config.moe.num_experts, inner = config.moe.intermediate_size, hidden = config.hidden_size;
  const RowPick gate_up[] = {{0, 2}, {1, 2}};
  Linear* const gate_up_targets[] = {&out.gate, &out.up};
  QUERN_TRY(bind_projection(binder, binder.prefixed(binder.names().interleaved_gate_up, layer),
                            {experts, 2 * inner, inner, hidden}, gate_up, gate_up_targets));
  const RowPick down{0, 1};
  Linear* const down_target = &out.down;
  return bind_projection(binder, binder.prefixed(binder.names().interleaved_down, layer),
                         {experts, hidden, hidden, inner}, {&down, 1}, {&down_target, 1});
}

}  // namespace quern
