// Field order of the blocks: GGUF specification, and ggml-common.h where it is silent.
#include "kernels/cpu/pack_source.h"

#include <cstring>

#include "base/check.h"

namespace quern {
namespace {

uint16_t load_u16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}

// 16 bytes hold the codes of k = 0 … 15 in their low and of k = 16 … 31 in their high halves.
void read_nibbles(const uint8_t* q, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) codes[i] = q[i] & 15;
  for (int i = 0; i < 16; ++i) codes[16 + i] = q[i] >> 4;
}

// Bit i of the four bytes is the fifth bit of code i.
void add_fifth_bits(const uint8_t* bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | ((bits[i / 8] >> (i % 8)) & 1) << 4);
}

// 32 bytes hold the codes of one block in their low and of the next in their high halves.
void read_nibbles_k(const uint8_t* q, uint8_t* codes) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) codes[64 * pair + i] = q[32 * pair + i] & 15;
    for (int i = 0; i < 32; ++i) codes[64 * pair + 32 + i] = q[32 * pair + i] >> 4;
  }
}

// Q4_K, Q5_K: eight 6-bit scales and minima in 12 bytes.
void read_scales_k(const uint8_t* s, SourceRecord& record) {
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    record.sub_scales[j][0] = static_cast<uint8_t>(scale);
    record.sub_mins[j] = static_cast<uint8_t>(min);
  }
}

// Q2_K, Q3_K, TQ2_0: 32 bytes hold four blocks, two bits each.
void read_pairs(const uint8_t* q, uint8_t* codes) {
  for (int block = 0; block < 8; ++block) {
    for (int i = 0; i < 32; ++i) codes[32 * block + i] = q[block / 4 * 32 + i] >> (2 * (block % 4)) & 3;
  }
}

void read_q4k(const uint8_t* p, SourceRecord& r) {
  r.d = load_u16(p);
  r.dmin = load_u16(p + 2);
  read_scales_k(p + 4, r);
  read_nibbles_k(p + 16, r.codes);
}

void read_q5k(const uint8_t* p, SourceRecord& r) {
  r.d = load_u16(p);
  r.dmin = load_u16(p + 2);
  read_scales_k(p + 4, r);
  read_nibbles_k(p + 48, r.codes);
  const uint8_t* high = p + 16;
  for (int block = 0; block < 8; ++block) {
    for (int i = 0; i < 32; ++i) {
      r.codes[32 * block + i] = static_cast<uint8_t>(r.codes[32 * block + i] | (high[i] >> block & 1) << 4);
    }
  }
}

void read_q6k(const uint8_t* p, SourceRecord& r) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = p + 64 * half;
    const uint8_t* high = p + 128 + 32 * half;
    uint8_t* codes = r.codes + 128 * half;
    for (int i = 0; i < 32; ++i) {
      codes[i] = static_cast<uint8_t>((low[i] & 15) | (high[i] & 3) << 4);
      codes[i + 32] = static_cast<uint8_t>((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
      codes[i + 64] = static_cast<uint8_t>(low[i] >> 4 | (high[i] >> 4 & 3) << 4);
      codes[i + 96] = static_cast<uint8_t>(low[i + 32] >> 4 | (high[i] >> 6) << 4);
    }
  }
  std::memcpy(r.sub_scales, p + 192, 16);
  r.d = load_u16(p + 208);
}

void read_q2k(const uint8_t* p, SourceRecord& r) {
  std::memcpy(r.sub_scales, p, 16);
  read_pairs(p + 16, r.codes);
  r.d = load_u16(p + 80);
  r.dmin = load_u16(p + 82);
}

void read_q3k(const uint8_t* p, SourceRecord& r) {
  read_pairs(p + 32, r.codes);
  for (int block = 0; block < 8; ++block) {
    for (int i = 0; i < 32; ++i) {
      r.codes[32 * block + i] = static_cast<uint8_t>(r.codes[32 * block + i] | (p[i] >> block & 1) << 2);
    }
  }
  const uint8_t* s = p + 96;  // sixteen 6-bit scales: low halves in bytes 0 … 7, high pairs of bits in bytes 8 … 11
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    const int high = s[8 + i % 4] >> (2 * (i / 4)) & 3;
    r.sub_scales[i / 2][i % 2] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  r.d = load_u16(p + 108);
}

void read_iq4xs(const uint8_t* p, SourceRecord& r) {
  r.d = load_u16(p);
  const int high = load_u16(p + 2);
  for (int block = 0; block < 8; ++block) {
    const int low = p[4 + block / 2] >> (4 * (block % 2)) & 15;
    r.sub_scales[block][0] = static_cast<uint8_t>((low | (high >> (2 * block) & 3) << 4) - 32);
    read_nibbles(p + 8 + 16 * block, r.codes + 32 * block);
  }
}

// Digit n of a byte in base 3, stored as the fraction byte / 256.
uint8_t ternary_digit(uint8_t byte, int n) {
  static constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  return static_cast<uint8_t>(static_cast<uint8_t>(byte * kPowers[n]) * 3 >> 8);
}

void read_tq1(const uint8_t* p, SourceRecord& r) {
  for (int n = 0; n < 5; ++n) {
    for (int i = 0; i < 32; ++i) r.codes[32 * n + i] = ternary_digit(p[i], n);
    for (int i = 0; i < 16; ++i) r.codes[160 + 16 * n + i] = ternary_digit(p[32 + i], n);
  }
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < 4; ++i) r.codes[240 + 4 * n + i] = ternary_digit(p[48 + i], n);
  }
  r.d = load_u16(p + 52);
}

void read_nvfp4(const uint8_t* p, SourceRecord& r) {
  for (int sub = 0; sub < 4; ++sub) {
    r.sub_scales[sub / 2][sub % 2] = p[sub];
    for (int i = 0; i < 8; ++i) {
      r.codes[16 * sub + i] = p[4 + 8 * sub + i] & 15;
      r.codes[16 * sub + 8 + i] = p[4 + 8 * sub + i] >> 4;
    }
  }
}

}  // namespace

void read_source_record(DType dtype, const std::byte* source, SourceRecord& record) {
  const auto* p = reinterpret_cast<const uint8_t*>(source);
  switch (dtype) {
    case DType::kQ1_0:
      record.d = load_u16(p);
      for (int i = 0; i < 128; ++i) record.codes[i] = p[2 + i / 8] >> (i % 8) & 1;
      return;
    case DType::kQ2_0:
      record.d = load_u16(p);
      for (int i = 0; i < 64; ++i) record.codes[i] = p[2 + i / 4] >> (2 * (i % 4)) & 3;
      return;
    case DType::kQ4_0:
    case DType::kIQ4NL: record.d = load_u16(p); return read_nibbles(p + 2, record.codes);
    case DType::kQ4_1:
      record.d = load_u16(p);
      record.dmin = load_u16(p + 2);
      return read_nibbles(p + 4, record.codes);
    case DType::kQ5_0:
      record.d = load_u16(p);
      read_nibbles(p + 6, record.codes);
      return add_fifth_bits(p + 2, record.codes);
    case DType::kQ5_1:
      record.d = load_u16(p);
      record.dmin = load_u16(p + 2);
      read_nibbles(p + 8, record.codes);
      return add_fifth_bits(p + 4, record.codes);
    case DType::kQ8_0:
      record.d = load_u16(p);
      std::memcpy(record.codes, p + 2, 32);
      return;
    case DType::kQ2K: return read_q2k(p, record);
    case DType::kQ3K: return read_q3k(p, record);
    case DType::kQ4K: return read_q4k(p, record);
    case DType::kQ5K: return read_q5k(p, record);
    case DType::kQ6K: return read_q6k(p, record);
    case DType::kIQ4XS: return read_iq4xs(p, record);
    case DType::kTQ1_0: return read_tq1(p, record);
    case DType::kTQ2_0:
      read_pairs(p, record.codes);
      record.d = load_u16(p + 64);
      return;
    case DType::kMXFP4: record.sub_scales[0][0] = p[0]; return read_nibbles(p + 1, record.codes);
    case DType::kNVFP4: return read_nvfp4(p, record);
    default: QUERN_CHECK(packed_layout(dtype).record_blocks > 0);
  }
}

}  // namespace quern
