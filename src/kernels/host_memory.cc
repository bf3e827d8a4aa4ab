#include "kernels/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kBytesMax = size_t{1} << 47;
constexpr size_t kHugePage = size_t{2} << 20;

class HostBuffer final : public Buffer {
 public:
  HostBuffer(AlignedArray<std::byte> bytes, int64_t elements) : bytes_(std::move(bytes)), elements_(elements) {}
  float* data() const override { return reinterpret_cast<float*>(bytes_.get()); }
  int64_t elements() const override { return elements_; }

 private:
  AlignedArray<std::byte> bytes_;
  int64_t elements_;
};

}  // namespace

void FreeAligned::operator()(void* p) const {
  std::free(p);
}

Result<AlignedArray<std::byte>> allocate_bytes(size_t bytes) {
  void* p = nullptr;
  if (bytes < kBytesMax) {
    // Long arrays start at a huge page: one TLB entry then covers 512 ordinary pages.
    const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    const size_t size = std::max(kAlignment, (bytes + alignment - 1) / alignment * alignment);
    p = std::aligned_alloc(alignment, size);
    if (p != nullptr) {
      if (alignment == kHugePage) madvise(p, size, MADV_HUGEPAGE);
      std::memset(p, 0, size);
    }
  }
  if (p == nullptr) return make_error(ErrorCode::kResourceExhausted, fmt::format("no memory for {} bytes", bytes));
  return AlignedArray<std::byte>(static_cast<std::byte*>(p));
}

Result<std::unique_ptr<Buffer>> allocate_host_buffer(int64_t elements) {
  QUERN_CHECK(elements >= 0);
  const auto n = static_cast<size_t>(elements);
  QUERN_ASSIGN(AlignedArray<std::byte> bytes, allocate_bytes(n > kBytesMax ? kBytesMax : n * sizeof(float)));
  return std::make_unique<HostBuffer>(std::move(bytes), elements);
}

Status check_kv_request(std::span<const KvLayerSpec> layers, int32_t num_blocks) {
  QUERN_CHECK(num_blocks >= 0);
  size_t bytes_per_block = 0;
  for (const KvLayerSpec& layer : layers) {
    QUERN_CHECK(layer.num_kv_heads > 0 && layer.key_dim > 0 && layer.value_dim > 0);
    QUERN_CHECK(!layer.value_in_key || layer.value_dim <= layer.key_dim);
    bytes_per_block += kv_bytes_per_token(layer) * kKvBlockSize;
  }
  if (num_blocks > 0 && bytes_per_block > kBytesMax / static_cast<size_t>(num_blocks)) {
    return make_error(ErrorCode::kResourceExhausted,
                      fmt::format("{} KV blocks of {} bytes do not fit any memory", num_blocks, bytes_per_block));
  }
  return {};
}

}  // namespace quern
