// The packed layouts of quantised weights, one table.
//
// A weight is cut into panels of 16 rows, padded with zeros. A panel is a sequence of records, one per source block (or
// a few), each for `record_blocks` blocks of 32 consecutive k:
//
//   record  [ d: f16 x 16 | dmin: f16 x 16 ]            `row_scales` of these
//           then per block of 32 k:
//           [ sub-scales: byte x 16, once or twice | sub-minima: byte x 16 | low bits | high bits ]
//
// Codes are numbered by group g = k / 4 of a block and byte position p = 4 * row + k % 4, so that 64 bytes are one
// group for the 16 rows. A plane of b bits per code holds several groups in the bits of one byte:
//   b = 8: byte 64 g + p                       b = 4: byte 64 (g % 4) + p, bits 4 (g / 4) …
//   b = 2: byte 64 (g / 4) + p, bits 2 (g % 4) …     b = 1: byte p, bit g
//
// A weight is scale * (code - zero) + min, with the scale of its row and block (or half block of 16 k).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quern {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kBlockCols = 32;  // of activations, and the unit of a record
inline constexpr int64_t kGroups = 8;      // of four k in a block
inline constexpr int64_t kRecordBlocksMax = 8;

// Where group g of a plane of `bits` bits lies: which run of 64 bytes, and from which bit of each byte on.
constexpr int64_t plane_run(int32_t bits, int64_t g) {
  return bits == 8 ? g : bits == 4 ? g % 4 : bits == 2 ? g / 4 : 0;
}
constexpr int plane_shift(int32_t bits, int64_t g) {
  return static_cast<int>(bits == 8 ? 0 : bits == 4 ? g / 4 * 4 : bits == 2 ? g % 4 * 2 : g);
}

enum class SubScale : uint8_t {
  kNone,      // scale = d
  kUnsigned,  // d * byte
  kSigned,    // d * signed byte
  kNibbles,   // d * (byte & 15), and min = -dmin * (byte >> 4)
  kE8M0,      // 2^(byte - 128)   (OCP Microscaling, halved because codes are doubled)
  kUE4M3,     // unsigned float of 4 exponent and 3 mantissa bits, halved likewise
};

enum class CodeMeaning : uint8_t {
  kNumber,      // code
  kSign,        // 2 * code: one bit stands for -1 and +1
  kE2M1,        // 2 * the FP4 value + 16
  kIq4,         // signed byte of the IQ4 codebook
  kSignedByte,  // a signed byte
};

struct PackedLayout {
  int32_t record_blocks = 0;  // 0: the type has no packed form
  int32_t row_scales = 0;     // 1: d; 2: d and dmin (or the minimum itself where there are no sub-minima)
  SubScale sub_scale = SubScale::kNone;
  int32_t num_sub_scales = 0;  // per block: 0, 1, or 2 (one per 16 k)
  int32_t num_sub_mins = 0;    // per block: 0 or 1; min = -dmin * byte
  int32_t low_bits = 0;
  int32_t high_bits = 0;
  CodeMeaning meaning = CodeMeaning::kNumber;
  int32_t zero = 0;  // a power of two or 0

  constexpr bool has_min() const { return row_scales == 2; }
  constexpr bool half_blocks() const { return num_sub_scales == 2; }
  constexpr size_t header_bytes() const { return static_cast<size_t>(row_scales) * 2 * kPanelRows; }
  constexpr size_t codes_offset() const { return static_cast<size_t>((num_sub_scales + num_sub_mins) * kPanelRows); }
  constexpr size_t block_bytes() const { return codes_offset() + static_cast<size_t>(64 * (low_bits + high_bits)); }
  constexpr size_t record_bytes() const { return header_bytes() + static_cast<size_t>(record_blocks) * block_bytes(); }
};

constexpr PackedLayout packed_layout(DType dtype) {
  using enum SubScale;
  using enum CodeMeaning;
  switch (dtype) {
      // clang-format off
    //                          blocks rows  sub-scale  n  mins low high meaning zero
    case DType::kQ1_0: return   {4,    1,    kNone,     0, 0,   1,  0,   kSign,   1};
    case DType::kQ2_0: return   {2,    1,    kNone,     0, 0,   2,  0,   kNumber, 1};
    case DType::kQ4_0: return   {1,    1,    kNone,     0, 0,   4,  0,   kNumber, 8};
    case DType::kQ4_1: return   {1,    2,    kNone,     0, 0,   4,  0,   kNumber, 0};
    case DType::kQ5_0: return   {1,    1,    kNone,     0, 0,   4,  1,   kNumber, 16};
    case DType::kQ5_1: return   {1,    2,    kNone,     0, 0,   4,  1,   kNumber, 0};
    case DType::kQ8_0: return   {1,    1,    kNone,     0, 0,   8,  0,   CodeMeaning::kSignedByte, 0};
    case DType::kQ2K: return    {8,    2,    kNibbles,  2, 0,   2,  0,   kNumber, 0};
    case DType::kQ3K: return    {8,    1,    SubScale::kSigned, 2, 0, 2, 1, kNumber, 4};
    case DType::kQ4K: return    {8,    2,    kUnsigned, 1, 1,   4,  0,   kNumber, 0};
    case DType::kQ5K: return    {8,    2,    kUnsigned, 1, 1,   4,  1,   kNumber, 0};
    case DType::kQ6K: return    {8,    1,    SubScale::kSigned, 2, 0, 4, 2, kNumber, 32};
    case DType::kIQ4NL: return  {1,    1,    kNone,     0, 0,   4,  0,   kIq4,    0};
    case DType::kIQ4XS: return  {8,    1,    SubScale::kSigned, 1, 0, 4, 0, kIq4, 0};
    case DType::kTQ1_0: return  {8,    1,    kNone,     0, 0,   2,  0,   kNumber, 1};
    case DType::kTQ2_0: return  {8,    1,    kNone,     0, 0,   2,  0,   kNumber, 1};
    case DType::kMXFP4: return  {1,    0,    kE8M0,     1, 0,   4,  0,   kE2M1,   16};
    case DType::kNVFP4: return  {2,    0,    kUE4M3,    2, 0,   4,  0,   kE2M1,   16};
    // clang-format on
    default: return {};
  }
}

// 2 * FP4 values + 16 by code, and the codebook of IQ4_NL and IQ4_XS (ggml, "kvalues_iq4nl").
alignas(16) inline constexpr uint8_t kE2M1Codes[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
alignas(16) inline constexpr int8_t kIq4Codes[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};

float e8m0_half(uint8_t bits);
float ue4m3_half(uint8_t bits);

}  // namespace quern
