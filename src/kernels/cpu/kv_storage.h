// Paged keys and values as the CPU's attention reads them.
//
// A layer is one array of blocks; a block holds, for each kv head, 16 positions of keys and then of values:
//
//   keys    [key_dim][16]       transposed: the lanes of a vector are positions, a score needs no sum across lanes
//   values  [16][value_stride]  value_dim rounded up to 16; the rest stays zero
//
// value_in_key (latent attention) keeps keys as [16][value_stride] with value_stride = key_dim rounded up to 16, and no
// values. Q8_0 sections hold int8 elements in the same order, followed by float16 scales, one per 32 elements of a
// position's vector: [groups][16] after transposed keys, [16][groups] otherwise. Q4_0 has the same scales; its elements
// are nibbles q + 8, of which a byte holds elements i (low) and i + 16 of a group of 32, so that each byte is of one
// position: [groups][16 bytes][16] where transposed, else [16][groups][16 bytes]. I16 sections hold pairs that one
// instruction adds up: keys [key_dim / 2][16][2], of two dimensions; values [8][value_stride][2], of two positions;
// then float32 scales [16]. Sections start at 64-byte boundaries.
#pragma once

#include <utility>

#include "hardware/thread_pool.h"
#include "kernels/device.h"
#include "kernels/host_memory.h"
#include "kernels/kv_block_access.h"

namespace quern::cpu {

// Where one kind of vector (keys or values) lies inside a head's part of a block.
struct KvSection {
  KvDType dtype = KvDType::kF16;
  bool transposed = false;
  int64_t dim = 0;
  int64_t stride = 0;        // elements from one position to the next; 16 positions apart by dim where transposed
  int64_t groups = 0;        // Q8_0, Q4_0: scales per position
  size_t offset = 0;         // bytes from the head's start
  size_t scales_offset = 0;  // Q8_0, Q4_0, I16: bytes from the head's start
};

struct KvLayer {
  KvLayerSpec spec;
  KvSection key;
  KvSection value;  // value_in_key: the same place as `key`
  size_t head_bytes = 0;
  std::byte* begin = nullptr;  // [num_blocks][num_kv_heads][head_bytes], in the storage's memory

  size_t block_bytes() const { return static_cast<size_t>(spec.num_kv_heads) * head_bytes; }
  const std::byte* head(int64_t block, int64_t kv_head) const {
    return begin + static_cast<size_t>(block * spec.num_kv_heads + kv_head) * head_bytes;
  }
  std::byte* head(int64_t block, int64_t kv_head) {
    return const_cast<std::byte*>(std::as_const(*this).head(block, kv_head));
  }
};

class CpuKvStorage final : public KvStorage, public KvBlockAccess {
 public:
  static Result<std::unique_ptr<CpuKvStorage>> create(std::span<const KvLayerSpec> layers, int32_t num_blocks);
  size_t block_bytes() const override;
  void read_block(int32_t block, std::span<std::byte> target) const override;
  void write_block(int32_t block, std::span<const std::byte> source) override;

  std::vector<KvLayer> data;
  AlignedArray<std::byte> memory;  // of all layers
};

// As Device::write_kv. Float16 saturates: a finite value never becomes infinite, which would poison sums it has no
// weight in.
void write_kv(ThreadPool& pool, Mat key, Mat value, std::span<const int32_t> slots, KvLayer& layer);
void copy_kv_block(CpuKvStorage& storage, int32_t source, int32_t target);

}  // namespace quern::cpu
