// Brings a chunk of keys and values into the form that the kernels read: pointers into the cache where its elements can
// be used as they are, else float32 copies.
#if defined(QUERN_KERNELS_CPU_ATTENTION_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_KERNELS_CPU_ATTENTION_CHUNK_INL_H_
#undef QUERN_KERNELS_CPU_ATTENTION_CHUNK_INL_H_
#else
#define QUERN_KERNELS_CPU_ATTENTION_CHUNK_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/attention_kernels-inl.h"
#include "kernels/cpu/kv_write.h"

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::attention {
namespace HWY_NAMESPACE {

struct Chunk {
  KvDType key_dtype = KvDType::kF32;  // kF32, kF16 or kI16
  KvDType value_dtype = KvDType::kF32;
  const void* keys[kChunkBlocks];           // [key_dim][16] each, or pairs of codes
  const void* values[kChunkBlocks];         // [16, value_stride] each, likewise
  const float* key_scales[kChunkBlocks];    // kI16: [16] each
  const float* value_scales[kChunkBlocks];  // likewise
  int64_t value_stride = 0;
};

// Up to this many rows, converting float16 inside the kernels is cheaper than a converted copy.
constexpr int64_t kDirectRowsMax = 2 * kRowsMax;

template <class Stored>
HWY_INLINE void convert_run(const std::byte* source, int64_t n, float* HWY_RESTRICT target) {
  const D d;
  const auto* p = reinterpret_cast<const typename Stored::T*>(source);
  for (int64_t i = 0; i < n; i += kLanes) hn::StoreU(Stored::load(d, p + i), d, target + i);
}

HWY_INLINE V load_int8(D d, const int8_t* p) {
  const hn::Rebind<int8_t, D> d8;
  const hn::RebindToSigned<D> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, p)));
}

// Q8_0: element times scale is exact, 8 bits by 11.
inline void convert_transposed_q8_0(const KvSection& section, const std::byte* head, float* HWY_RESTRICT target) {
  const D d;
  const auto* elements = reinterpret_cast<const int8_t*>(head + section.offset);
  const auto* scales = reinterpret_cast<const uint16_t*>(head + section.scales_offset);
  for (int64_t group = 0; group < section.groups; ++group) {
    const int64_t end = HWY_MIN(section.dim, (group + 1) * kKvScaleGroup);
    for (int64_t p = 0; p < kKvBlockSize; p += kLanes) {
      const V scale = StoredF16::load(d, scales + group * kKvBlockSize + p);
      for (int64_t i = group * kKvScaleGroup; i < end; ++i) {
        const int64_t at = i * kKvBlockSize + p;
        hn::StoreU(hn::Mul(load_int8(d, elements + at), scale), d, target + at);
      }
    }
  }
}

// One float16 at a time: a whole vector would reach past the scales' end.
HWY_INLINE V load_scale(D d, const uint16_t* p) {
  const hn::CappedTag<float, 1> d1;
  const hn::Rebind<hwy::float16_t, decltype(d1)> dh1;
  const hn::Rebind<uint16_t, decltype(d1)> du1;
  return hn::Set(d, hn::GetLane(hn::PromoteTo(d1, hn::BitCast(dh1, hn::LoadU(du1, p)))));
}

inline void convert_natural_q8_0(const KvSection& section, const std::byte* head, float* HWY_RESTRICT target) {
  const D d;
  const auto* elements = reinterpret_cast<const int8_t*>(head + section.offset);
  const auto* scales = reinterpret_cast<const uint16_t*>(head + section.scales_offset);
  for (int64_t p = 0; p < kKvBlockSize; ++p) {
    for (int64_t group = 0; group < section.groups; ++group) {
      const V scale = load_scale(d, scales + p * section.groups + group);
      const int64_t end = HWY_MIN(section.stride, (group + 1) * kKvScaleGroup);
      for (int64_t i = group * kKvScaleGroup; i < end; i += kLanes) {
        const int64_t at = p * section.stride + i;
        hn::StoreU(hn::Mul(load_int8(d, elements + at), scale), d, target + at);
      }
    }
  }
}

// The low and the high nibbles of bytes, less 8.
struct Nibbles {
  V low, high;
};
HWY_INLINE Nibbles load_nibbles(D d, const uint8_t* p) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::RebindToSigned<D> d32;
  const auto bytes = hn::PromoteTo(d32, hn::LoadU(d8, p));
  const auto eight = hn::Set(d32, 8);
  return {.low = hn::ConvertTo(d, hn::Sub(hn::And(bytes, hn::Set(d32, 15)), eight)),
          .high = hn::ConvertTo(d, hn::Sub(hn::ShiftRight<4>(bytes), eight))};
}

// Q4_0: element times scale is exact, too.
inline void convert_transposed_q4_0(const KvSection& section, const std::byte* head, float* HWY_RESTRICT target) {
  const D d;
  const auto* elements = reinterpret_cast<const uint8_t*>(head + section.offset);
  const auto* scales = reinterpret_cast<const uint16_t*>(head + section.scales_offset);
  for (int64_t group = 0; group < section.groups; ++group) {
    const int64_t count = HWY_MIN(kKvGroupNibbleBytes, section.dim - group * kKvScaleGroup);
    for (int64_t p = 0; p < kKvBlockSize; p += kLanes) {
      const V scale = StoredF16::load(d, scales + group * kKvBlockSize + p);
      for (int64_t i = 0; i < count; ++i) {
        const Nibbles pair = load_nibbles(d, elements + (group * kKvGroupNibbleBytes + i) * kKvBlockSize + p);
        const int64_t first = group * kKvScaleGroup + i, second = first + kKvGroupNibbleBytes;
        hn::StoreU(hn::Mul(pair.low, scale), d, target + first * kKvBlockSize + p);
        if (second < section.dim) hn::StoreU(hn::Mul(pair.high, scale), d, target + second * kKvBlockSize + p);
      }
    }
  }
}

// The stride is a multiple of 16, so a half of a group is there as a whole or not at all.
inline void convert_natural_q4_0(const KvSection& section, const std::byte* head, float* HWY_RESTRICT target) {
  const D d;
  const auto* elements = reinterpret_cast<const uint8_t*>(head + section.offset);
  const auto* scales = reinterpret_cast<const uint16_t*>(head + section.scales_offset);
  for (int64_t p = 0; p < kKvBlockSize; ++p) {
    for (int64_t group = 0; group < section.groups; ++group) {
      const V scale = load_scale(d, scales + p * section.groups + group);
      float* out = target + p * section.stride + group * kKvScaleGroup;
      const bool whole = (group + 1) * kKvScaleGroup <= section.stride;
      for (int64_t i = 0; i < kKvGroupNibbleBytes; i += kLanes) {
        const Nibbles pair = load_nibbles(d, elements + (p * section.groups + group) * kKvGroupNibbleBytes + i);
        hn::StoreU(hn::Mul(pair.low, scale), d, out + i);
        if (whole) hn::StoreU(hn::Mul(pair.high, scale), d, out + kKvGroupNibbleBytes + i);
      }
    }
  }
}

// A pair at a time: for instruction sets that use no integers.
inline void convert_i16(const KvSection& section, const std::byte* head, float* HWY_RESTRICT target) {
  const auto* codes = reinterpret_cast<const int16_t*>(head + section.offset);
  const auto* scales = reinterpret_cast<const float*>(head + section.scales_offset);
  const int64_t count = section.transposed ? section.dim : section.stride;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t p = 0; p < kKvBlockSize; ++p) {
      const int64_t from =
          section.transposed ? (i / 2 * kKvBlockSize + p) * 2 + i % 2 : (p / 2 * section.stride + i) * 2 + p % 2;
      const int64_t to = section.transposed ? i * kKvBlockSize + p : p * section.stride + i;
      target[to] = static_cast<float>(codes[from]) * scales[p];
    }
  }
}

// A section's 16 positions as float32, in the order they are stored in.
inline void convert_section(const KvSection& section, const std::byte* head, float* target) {
  const int64_t n = kKvBlockSize * section.stride;
  switch (section.dtype) {
    case KvDType::kF32: return convert_run<StoredF32>(head + section.offset, n, target);
    case KvDType::kF16: return convert_run<StoredF16>(head + section.offset, n, target);
    case KvDType::kBF16: return convert_run<StoredBF16>(head + section.offset, n, target);
    case KvDType::kQ8_0:
      return section.transposed ? convert_transposed_q8_0(section, head, target)
                                : convert_natural_q8_0(section, head, target);
    case KvDType::kQ4_0:
      return section.transposed ? convert_transposed_q4_0(section, head, target)
                                : convert_natural_q4_0(section, head, target);
    case KvDType::kI16: return convert_i16(section, head, target);
  }
}

// [count <= 16 rows, dim] to [dim][16]; positions that do not exist become zero.
inline void transpose_block(const float* rows, int64_t stride, int64_t count, int64_t dim, float* HWY_RESTRICT target) {
  int64_t done = 0;  // columns that the vector loop has moved
#if HWY_TARGET != HWY_SCALAR
  if (count == kKvBlockSize) {
    const hn::FixedTag<float, 4> d4;
    for (; done + 4 <= dim; done += 4) {
      for (int64_t p = 0; p < kKvBlockSize; p += 4) {
        const float* at = rows + p * stride + done;
        const auto r0 = hn::LoadU(d4, at), r1 = hn::LoadU(d4, at + stride);
        const auto r2 = hn::LoadU(d4, at + 2 * stride), r3 = hn::LoadU(d4, at + 3 * stride);
        const auto low01 = hn::InterleaveLower(d4, r0, r1), low23 = hn::InterleaveLower(d4, r2, r3);
        const auto high01 = hn::InterleaveUpper(d4, r0, r1), high23 = hn::InterleaveUpper(d4, r2, r3);
        float* to = target + done * kKvBlockSize + p;
        hn::StoreU(hn::ConcatLowerLower(d4, low23, low01), d4, to);
        hn::StoreU(hn::ConcatUpperUpper(d4, low23, low01), d4, to + kKvBlockSize);
        hn::StoreU(hn::ConcatLowerLower(d4, high23, high01), d4, to + 2 * kKvBlockSize);
        hn::StoreU(hn::ConcatUpperUpper(d4, high23, high01), d4, to + 3 * kKvBlockSize);
      }
    }
  }
#endif
  for (; done < dim; ++done) {
    for (int64_t p = 0; p < kKvBlockSize; ++p) {
      target[done * kKvBlockSize + p] = p < count ? rows[p * stride + done] : 0.0f;
    }
  }
}

inline void load_cached_block(const AttentionCall& call, const std::byte* head, bool direct, int64_t b,
                              const AttentionScratch& scratch, Chunk& chunk) {
  const KvLayer& layer = *call.cache;
  float* keys = scratch.keys + b * kKvBlockSize * call.key_dim;
  if (layer.spec.value_in_key) {
    float* natural = scratch.values + b * kKvBlockSize * layer.key.stride;
    convert_section(layer.key, head, natural);
    transpose_block(natural, layer.key.stride, kKvBlockSize, call.key_dim, keys);
    chunk.keys[b] = keys;
    chunk.values[b] = natural;
    return;
  }
  const auto usable = [direct](KvDType dtype) {
    return dtype == KvDType::kF32 || (direct && dtype == KvDType::kF16) || (kHasIntegers && dtype == KvDType::kI16);
  };
  chunk.key_scales[b] = reinterpret_cast<const float*>(head + layer.key.scales_offset);
  chunk.value_scales[b] = reinterpret_cast<const float*>(head + layer.value.scales_offset);
  chunk.keys[b] = head + layer.key.offset;
  chunk.values[b] = head + layer.value.offset;
  chunk.key_dtype = usable(layer.key.dtype) ? layer.key.dtype : KvDType::kF32;
  chunk.value_dtype = usable(layer.value.dtype) ? layer.value.dtype : KvDType::kF32;
  if (!usable(layer.key.dtype)) {
    convert_section(layer.key, head, keys);
    chunk.keys[b] = keys;
  }
  if (!usable(layer.value.dtype)) {
    float* values = scratch.values + b * kKvBlockSize * layer.value.stride;
    convert_section(layer.value, head, values);
    chunk.values[b] = values;
  }
}

inline void load_row_block(const AttentionCall& call, const AttentionTile& tile, int64_t position, int64_t b,
                           const AttentionScratch& scratch, Chunk& chunk) {
  const SequenceSpan& s = call.sequences[static_cast<size_t>(tile.sequence)];
  const int64_t row = s.query_begin + position;
  const int64_t count = HWY_MIN(int64_t{kKvBlockSize}, s.query_count - position);
  float* keys = scratch.keys + b * kKvBlockSize * call.key_dim;
  transpose_block(call.key.row(row) + tile.kv_head * call.key_dim, call.key.stride, count, call.key_dim, keys);
  chunk.keys[b] = keys;
  const float* values = call.value.row(row) + tile.kv_head * call.value_dim;
  chunk.values[b] = values;
  if (call.value_dim != call.value_stride) {
    // Whole vectors would read past a head's values, past the matrix at its end.
    float* padded = scratch.values + b * kKvBlockSize * call.value_stride;
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t c = 0; c < call.value_stride; ++c) {
        padded[p * call.value_stride + c] = c < call.value_dim ? values[p * call.value.stride + c] : 0.0f;
      }
    }
    chunk.values[b] = padded;
  }
}

// Blocks that hold positions [begin, end) of the chunk at `chunk_begin`; the others' pointers stay unset.
inline void load_chunk(const AttentionCall& call, const AttentionTile& tile, int64_t chunk_begin, int64_t begin,
                       int64_t end, const AttentionScratch& scratch, Chunk& chunk) {
  const bool direct = tile.rows(call) <= kDirectRowsMax;
  const SequenceSpan& s = call.sequences[static_cast<size_t>(tile.sequence)];
  if (call.cache == nullptr) {
    chunk.value_stride = call.value_dim == call.value_stride ? call.value.stride : call.value_stride;
  } else {
    chunk.value_stride = call.cache->value.stride;
  }
  for (int64_t block = begin / kKvBlockSize; block * kKvBlockSize < end; ++block) {
    const int64_t b = block - chunk_begin / kKvBlockSize;
    if (call.cache == nullptr) {
      load_row_block(call, tile, block * kKvBlockSize, b, scratch, chunk);
    } else {
      const std::byte* head = call.cache->head(s.blocks[static_cast<size_t>(block)], tile.kv_head);
      load_cached_block(call, head, direct, b, scratch, chunk);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quern::cpu::attention
HWY_AFTER_NAMESPACE();

#endif  // toggle
