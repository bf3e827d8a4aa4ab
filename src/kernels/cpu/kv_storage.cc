#include "kernels/cpu/kv_storage.h"

#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/kv_write.h"
#include "kernels/cpu/parallel_rows.h"

namespace quern::cpu {
namespace {

constexpr size_t kLine = 64;

size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Of a position's elements, without their scales.
size_t vector_bytes(const KvSection& section) {
  const auto elements = static_cast<size_t>(section.stride);
  switch (section.dtype) {
    case KvDType::kF32: return elements * 4;
    case KvDType::kF16:
    case KvDType::kBF16:
    case KvDType::kI16: return elements * 2;
    case KvDType::kQ8_0: return elements;
    case KvDType::kQ4_0: return static_cast<size_t>(section.groups) * kKvGroupNibbleBytes;
  }
  return 0;
}

// Places a section at `offset` and returns the offset behind it.
size_t place(KvSection& section, KvDType dtype, int64_t dim, bool transposed, size_t offset) {
  section.dtype = dtype;
  section.transposed = transposed;
  section.dim = dim;
  const size_t unit = !transposed ? kKvBlockSize : dtype == KvDType::kI16 ? 2 : 1;
  section.stride = static_cast<int64_t>(round_up(static_cast<size_t>(dim), unit));
  const bool scaled = dtype == KvDType::kQ8_0 || dtype == KvDType::kQ4_0;
  section.groups = scaled ? (dim + kKvScaleGroup - 1) / kKvScaleGroup : 0;
  section.offset = offset;
  offset = round_up(offset + kKvBlockSize * vector_bytes(section), kLine);
  section.scales_offset = offset;
  const size_t scale_bytes =
      dtype == KvDType::kI16 ? sizeof(float) : static_cast<size_t>(section.groups) * sizeof(uint16_t);
  return round_up(offset + kKvBlockSize * scale_bytes, kLine);
}

// Where each layer begins, and behind them all how many bytes they take. The system zeroes a huge page when it is first
// written, which takes milliseconds: layers begin at different places of one, so that a step which takes a new block
// does not pay for all layers at once.
std::vector<size_t> place_layers(std::span<const KvLayer> layers, int32_t num_blocks) {
  std::vector<size_t> begins;
  size_t end = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const size_t bytes = static_cast<size_t>(num_blocks) * layers[i].block_bytes();
    if (bytes >= kHugePage) {
      const size_t place = i * kHugePage / layers.size() / kLine * kLine;
      const size_t in_page = end % kHugePage;
      end += place >= in_page ? place - in_page : kHugePage + place - in_page;
    }
    begins.push_back(end);
    end += bytes;
  }
  begins.push_back(end);
  return begins;
}

}  // namespace

Result<std::unique_ptr<CpuKvStorage>> CpuKvStorage::create(std::span<const KvLayerSpec> layers, int32_t num_blocks) {
  QUERN_TRY(check_kv_request(layers, num_blocks));
  auto storage = std::make_unique<CpuKvStorage>();
  storage->layers.assign(layers.begin(), layers.end());
  storage->num_blocks = num_blocks;
  for (const KvLayerSpec& spec : layers) {
    KvLayer layer;
    layer.spec = spec;
    layer.head_bytes = place(layer.key, spec.key_dtype, spec.key_dim, !spec.value_in_key, 0);
    if (spec.value_in_key) {
      layer.value = layer.key;
    } else {
      layer.head_bytes = place(layer.value, spec.value_dtype, spec.value_dim, false, layer.head_bytes);
    }
    storage->data.push_back(layer);
  }
  const std::vector<size_t> begins = place_layers(storage->data, num_blocks);
  QUERN_ASSIGN(storage->memory, allocate_bytes(begins.back()));
  for (size_t i = 0; i < storage->data.size(); ++i) storage->data[i].begin = storage->memory.get() + begins[i];
  return storage;
}

size_t CpuKvStorage::block_bytes() const {
  size_t bytes = 0;
  for (const KvLayer& layer : data) bytes += layer.block_bytes();
  return bytes;
}

void CpuKvStorage::read_block(int32_t block, std::span<std::byte> target) const {
  QUERN_CHECK(block >= 0 && block < num_blocks && target.size() == block_bytes());
  std::byte* to = target.data();
  for (const KvLayer& layer : data) {
    const size_t bytes = layer.block_bytes();
    std::memcpy(to, layer.head(block, 0), bytes);
    to += bytes;
  }
}

void CpuKvStorage::write_block(int32_t block, std::span<const std::byte> source) {
  QUERN_CHECK(block >= 0 && block < num_blocks && source.size() == block_bytes());
  const std::byte* from = source.data();
  for (KvLayer& layer : data) {
    const size_t bytes = layer.block_bytes();
    std::memcpy(layer.head(block, 0), from, bytes);
    from += bytes;
  }
}

void write_kv(ThreadPool& pool, Mat key, Mat value, std::span<const int32_t> slots, KvLayer& layer) {
  parallel_rows(pool, key.rows, key.cols + value.cols, 6, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t slot = slots[static_cast<size_t>(t)];
      const int64_t block = slot / kKvBlockSize, position = slot % kKvBlockSize;
      for (int64_t h = 0; h < layer.spec.num_kv_heads; ++h) {
        std::byte* head = layer.head(block, h);
        write_kv_vector(key.row(t) + h * layer.spec.key_dim, layer.key, position, head);
        if (!layer.spec.value_in_key) {
          write_kv_vector(value.row(t) + h * layer.spec.value_dim, layer.value, position, head);
        }
      }
    }
  });
}

void copy_kv_block(CpuKvStorage& storage, int32_t source, int32_t target) {
  if (source == target) return;
  for (KvLayer& layer : storage.data) {
    const size_t bytes = layer.block_bytes();
    std::memcpy(layer.head(target, 0), layer.head(source, 0), bytes);
  }
}

}  // namespace quern::cpu
