#include "kernels/cpu/pack_rows.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/pack_source.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

// Adds the `bits` bits from `from_bit` on of one row's 32 codes to a plane that was zero there. Four codes at a time:
// no code leaves its byte.
void put_codes(const uint8_t* codes, int from_bit, int32_t bits, int64_t row, std::byte* plane) {
  const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
  for (int64_t g = 0; g < kGroups; ++g) {
    std::byte* at = plane + 64 * plane_run(bits, g) + 4 * row;
    uint32_t four;
    uint32_t word;
    std::memcpy(&four, codes + 4 * g, 4);
    std::memcpy(&word, at, 4);
    word |= (four >> from_bit & mask) << plane_shift(bits, g);
    std::memcpy(at, &word, 4);
  }
}

void add_codes(const std::byte* plane, int to_bit, int32_t bits, int64_t row, uint8_t* codes) {
  const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
  for (int64_t g = 0; g < kGroups; ++g) {
    uint32_t four;
    uint32_t word;
    std::memcpy(&four, codes + 4 * g, 4);
    std::memcpy(&word, plane + 64 * plane_run(bits, g) + 4 * row, 4);
    four |= (word >> plane_shift(bits, g) & mask) << to_bit;
    std::memcpy(codes + 4 * g, &four, 4);
  }
}

void put_record(const PackedLayout& layout, const SourceRecord& source, int64_t row, std::byte* record) {
  if (layout.row_scales > 0) std::memcpy(record + 2 * row, &source.d, 2);
  if (layout.row_scales > 1) std::memcpy(record + 2 * kPanelRows + 2 * row, &source.dmin, 2);
  for (int32_t b = 0; b < layout.record_blocks; ++b) {
    std::byte* block = record + layout.header_bytes() + static_cast<size_t>(b) * layout.block_bytes();
    for (int32_t i = 0; i < layout.num_sub_scales; ++i)
      block[kPanelRows * i + row] = std::byte{source.sub_scales[b][i]};
    if (layout.num_sub_mins > 0) block[kPanelRows * layout.num_sub_scales + row] = std::byte{source.sub_mins[b]};
    const uint8_t* codes = source.codes + kBlockCols * b;
    std::byte* low = block + layout.codes_offset();
    put_codes(codes, 0, layout.low_bits, row, low);
    if (layout.high_bits > 0) put_codes(codes, layout.low_bits, layout.high_bits, row, low + 64 * layout.low_bits);
  }
}

float load_f16(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

struct Affine {
  float scale = 0;
  float min = 0;
};

// Scale and minimum of half block `half` of a row, in the operations and order of the format's definition.
Affine row_scale(const PackedLayout& layout, const std::byte* record, const std::byte* block, int64_t row,
                 int32_t half) {
  const float d = layout.row_scales > 0 ? load_f16(record + 2 * row) : 0.0f;
  const float dmin = layout.row_scales > 1 ? load_f16(record + 2 * kPanelRows + 2 * row) : 0.0f;
  const auto sub = layout.num_sub_scales > 0 ? std::to_integer<uint8_t>(block[kPanelRows * half + row]) : uint8_t{0};
  switch (layout.sub_scale) {
    case SubScale::kNone: return {d, dmin};
    case SubScale::kUnsigned: {
      const auto min = std::to_integer<uint8_t>(block[kPanelRows * layout.num_sub_scales + row]);
      return {d * sub, -(dmin * min)};
    }
    case SubScale::kSigned: return {d * static_cast<int8_t>(sub), 0.0f};
    case SubScale::kNibbles: return {d * static_cast<float>(sub & 15), -(dmin * static_cast<float>(sub >> 4))};
    case SubScale::kE8M0: return {e8m0_half(sub), 0.0f};
    case SubScale::kUE4M3: return {ue4m3_half(sub), 0.0f};
  }
  return {};
}

int code_value(const PackedLayout& layout, uint8_t code) {
  switch (layout.meaning) {
    case CodeMeaning::kNumber: return code - layout.zero;
    case CodeMeaning::kSign: return 2 * code - layout.zero;
    case CodeMeaning::kE2M1: return kE2M1Codes[code] - layout.zero;
    case CodeMeaning::kIq4: return kIq4Codes[code];
    case CodeMeaning::kSignedByte: return static_cast<int8_t>(code);
  }
  return 0;
}

}  // namespace

float e8m0_half(uint8_t bits) {
  return std::ldexp(1.0f, bits - 128);
}

float ue4m3_half(uint8_t bits) {
  if (bits == 0x7f) return 0.0f;
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

size_t panel_bytes(DType dtype, int64_t cols) {
  const PackedLayout layout = packed_layout(dtype);
  return static_cast<size_t>(cols / (kBlockCols * layout.record_blocks)) * layout.record_bytes();
}

void pack_panel(DType dtype, const std::byte* const* rows, int64_t num_rows, int64_t cols, std::byte* panel) {
  const PackedLayout layout = packed_layout(dtype);
  const int64_t record_cols = kBlockCols * layout.record_blocks;
  const size_t source_bytes = *dtype_bytes(dtype, static_cast<uint64_t>(record_cols));
  QUERN_CHECK(layout.record_blocks > 0 && cols % record_cols == 0 && num_rows <= kPanelRows);
  std::memset(panel, 0, panel_bytes(dtype, cols));
  SourceRecord source;
  for (int64_t i = 0; i < cols / record_cols; ++i) {
    for (int64_t row = 0; row < num_rows; ++row) {
      read_source_record(dtype, rows[row] + static_cast<size_t>(i) * source_bytes, source);
      put_record(layout, source, row, panel + static_cast<size_t>(i) * layout.record_bytes());
    }
  }
}

void unpack_panel_row(DType dtype, const std::byte* panel, int64_t row, int64_t cols, float* target) {
  const PackedLayout layout = packed_layout(dtype);
  const int64_t num_blocks = cols / kBlockCols;
  for (int64_t b = 0; b < num_blocks; ++b) {
    const std::byte* record = panel + static_cast<size_t>(b / layout.record_blocks) * layout.record_bytes();
    const std::byte* block =
        record + layout.header_bytes() + static_cast<size_t>(b % layout.record_blocks) * layout.block_bytes();
    const std::byte* low = block + layout.codes_offset();
    alignas(32) uint8_t codes[kBlockCols] = {};
    add_codes(low, 0, layout.low_bits, row, codes);
    if (layout.high_bits > 0) add_codes(low + 64 * layout.low_bits, layout.low_bits, layout.high_bits, row, codes);
    for (int32_t half = 0; half < 2; ++half) {
      const Affine w = row_scale(layout, record, block, row, layout.half_blocks() ? half : 0);
      float* out = target + kBlockCols * b + 16 * half;
      for (int i = 0; i < 16; ++i) {
        const float product = w.scale * static_cast<float>(code_value(layout, codes[16 * half + i]));
        out[i] = layout.has_min() ? product + w.min : product;
      }
    }
  }
}

}  // namespace quern
