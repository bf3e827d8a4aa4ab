#include "kernels/cpu/pack_rows.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/pack_source.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

uint32_t load_word(const void* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// Writes the kBits bits from `from_bit` on of one row's 32 codes. Four codes at a time: no code leaves its byte.
template <int32_t kBits>
void put_plane(const uint8_t* codes, int from_bit, int64_t row, std::byte* plane) {
  constexpr uint32_t kMask = ((1u << kBits) - 1) * 0x01010101u;
  uint32_t words[kBits] = {};
  for (int64_t g = 0; g < kGroups; ++g) {
    words[plane_run(kBits, g)] |= (load_word(codes + 4 * g) >> from_bit & kMask) << plane_shift(kBits, g);
  }
  for (int64_t run = 0; run < kBits; ++run) std::memcpy(plane + 64 * run + 4 * row, &words[run], 4);
}

void put_codes(const uint8_t* codes, int from_bit, int32_t bits, int64_t row, std::byte* plane) {
  switch (bits) {
    case 1: return put_plane<1>(codes, from_bit, row, plane);
    case 2: return put_plane<2>(codes, from_bit, row, plane);
    case 4: return put_plane<4>(codes, from_bit, row, plane);
    default: QUERN_DCHECK(bits == 8); return put_plane<8>(codes, from_bit, row, plane);
  }
}

// Types whose source blocks already hold groups of four codes as a panel does: only the rows are interleaved.
struct WordSource {
  int32_t scales = 0;  // bytes of d and dmin at the block's begin, two each; 0: one byte, the sub-scale
  int32_t codes = 0;   // offset of the codes; 0: not such a type
};

constexpr WordSource word_source(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kIQ4NL:
    case DType::kQ8_0: return {2, 2};
    case DType::kQ4_1: return {4, 4};
    case DType::kMXFP4: return {0, 1};
    default: return {};
  }
}

void copy_record(const PackedLayout& layout, const WordSource& words, const std::byte* source, int64_t row,
                 std::byte* record) {
  std::byte* block = record + layout.header_bytes();
  if (words.scales == 0) block[row] = source[0];
  for (int32_t i = 0; i < words.scales; i += 2) std::memcpy(record + kPanelRows * i + 2 * row, source + i, 2);
  std::byte* low = block + layout.codes_offset() + 4 * row;
  for (int32_t run = 0; run < layout.low_bits; ++run) std::memcpy(low + 64 * run, source + words.codes + 4 * run, 4);
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
  if (num_rows < kPanelRows) std::memset(panel, 0, panel_bytes(dtype, cols));
  const WordSource words = word_source(dtype);
  SourceRecord source;
  for (int64_t i = 0; i < cols / record_cols; ++i) {
    std::byte* record = panel + static_cast<size_t>(i) * layout.record_bytes();
    for (int64_t row = 0; row < num_rows; ++row) {
      const std::byte* bytes = rows[row] + static_cast<size_t>(i) * source_bytes;
      if (words.codes > 0) {
        copy_record(layout, words, bytes, row, record);
        continue;
      }
      read_source_record(dtype, bytes, source);
      put_record(layout, source, row, record);
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
