// The bytes of one block of KV storage, all layers, as the device lays them out: to keep it somewhere else and bring it
// back. Beside Device: a storage whose device can do it is also one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device.h"

namespace quern {

class KvBlockAccess {
 public:
  virtual ~KvBlockAccess() = default;
  virtual size_t block_bytes() const = 0;
  virtual void read_block(int32_t block, std::span<std::byte> target) const = 0;  // block_bytes() of them
  virtual void write_block(int32_t block, std::span<const std::byte> source) = 0;
};

// Null when the storage's device gives no access.
inline KvBlockAccess* kv_block_access(KvStorage& storage) {
  return dynamic_cast<KvBlockAccess*>(&storage);
}

}  // namespace quern
