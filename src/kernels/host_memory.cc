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

size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Zero pages at a huge page's boundary: one TLB entry then covers what 512 ordinary pages do. Null where there is no
// room.
std::byte* map_huge_pages(size_t bytes) {
  // NORESERVE: more than the machine has may be asked for where not all of it will be touched.
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* whole = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(whole);
  const auto address = reinterpret_cast<uintptr_t>(whole);
  const size_t before = round_up(address, kHugePage) - address;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, kHugePage - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

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
  if (mapped_bytes > 0) {
    munmap(p, mapped_bytes);
  } else {
    std::free(p);
  }
}

Result<AlignedArray<std::byte>> allocate_bytes(size_t bytes) {
  std::byte* p = nullptr;
  size_t mapped_bytes = 0;
  if (bytes < kHugePage) {
    const size_t size = std::max(kAlignment, round_up(bytes, kAlignment));
    p = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    if (p != nullptr) std::memset(p, 0, size);
  } else if (bytes < kBytesMax) {
    mapped_bytes = round_up(bytes, kHugePage);
    p = map_huge_pages(mapped_bytes);
  }
  if (p == nullptr) return make_error(ErrorCode::kResourceExhausted, fmt::format("no memory for {} bytes", bytes));
  return AlignedArray<std::byte>(p, FreeAligned{mapped_bytes});
}

Result<std::unique_ptr<Buffer>> allocate_host_buffer(int64_t elements) {
  QUERN_CHECK(elements >= 0);
  const auto n = static_cast<size_t>(elements);
  QUERN_ASSIGN(AlignedArray<std::byte> bytes, allocate_bytes(n > kBytesMax ? kBytesMax : n * sizeof(float)));
  return make_host_buffer(std::move(bytes), elements);
}

std::unique_ptr<Buffer> make_host_buffer(AlignedArray<std::byte> bytes, int64_t elements) {
  return std::make_unique<HostBuffer>(std::move(bytes), elements);
}

Status check_kv_request(std::span<const KvLayerSpec> layers, int32_t num_blocks) {
  QUERN_CHECK(num_blocks >= 0);
  size_t bytes_per_block = 0;
  for (const KvLayerSpec& layer : layers) {
    QUERN_CHECK(layer.num_kv_heads > 0 && layer.key_dim > 0 && layer.value_dim > 0);
    QUERN_CHECK(!layer.value_in_key || (layer.value_dim <= layer.key_dim && layer.key_dtype != KvDType::kI16));
    bytes_per_block += kv_bytes_per_token(layer) * kKvBlockSize;
  }
  if (num_blocks > 0 && bytes_per_block > kBytesMax / static_cast<size_t>(num_blocks)) {
    return make_error(ErrorCode::kResourceExhausted,
                      fmt::format("{} KV blocks of {} bytes do not fit any memory", num_blocks, bytes_per_block));
  }
  return {};
}

}  // namespace quern
