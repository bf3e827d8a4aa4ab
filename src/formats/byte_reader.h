// A cursor over bytes that may end anywhere. Every read is bounded by what remains; nothing is consumed when a read
// fails. All numbers of the formats read here are little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace quern {

static_assert(std::endian::native == std::endian::little, "readers copy little-endian numbers as they stand");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <class T>
  [[nodiscard]] bool read(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // A view into the bytes; lives as long as they do.
  [[nodiscard]] bool read_text(uint64_t size, std::string_view& text) {
    if (remaining() < size) return false;
    text = {reinterpret_cast<const char*>(bytes_.data() + position_), static_cast<size_t>(size)};
    position_ += static_cast<size_t>(size);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace quern
