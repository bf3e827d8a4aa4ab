// Device memory of devices that share the host's memory.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/device.h"

namespace quern {

inline constexpr size_t kHugePage = size_t{2} << 20;  // bytes; arrays from this size on are mapped in whole ones

struct FreeAligned {
  size_t mapped_bytes = 0;  // 0: from the allocator, else a mapping of its own
  void operator()(void* p) const;
};
template <class T>
using AlignedArray = std::unique_ptr<T[], FreeAligned>;

// `bytes` zero bytes at a 64-byte boundary, readable as whole 64-byte lines. Large arrays are mapped and take memory
// only as they are touched. Errors: kResourceExhausted, also for a count that no address space holds.
Result<AlignedArray<std::byte>> allocate_bytes(size_t bytes);
Result<std::unique_ptr<Buffer>> allocate_host_buffer(int64_t elements);
// The buffer of `elements` floats that `bytes` holds.
std::unique_ptr<Buffer> make_host_buffer(AlignedArray<std::byte> bytes, int64_t elements);

// The checks every device makes before it builds a storage. Errors: kResourceExhausted.
Status check_kv_request(std::span<const KvLayerSpec> layers, int32_t num_blocks);

}  // namespace quern
