// RAII around what the Rust library hands out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "quern/status.h"
#include "text/ffi/quern_text_ffi.h"

namespace quern::rust {

inline QuernBytes bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(QuernBuffer buffer) : buffer_(buffer) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { quern_buffer_free(buffer_); }

  QuernBuffer* out() { return &buffer_; }
  std::string text() const { return {reinterpret_cast<const char*>(buffer_.data), buffer_.size}; }

 private:
  QuernBuffer buffer_ = {};
};

class Ids {
 public:
  Ids() = default;
  Ids(const Ids&) = delete;
  Ids& operator=(const Ids&) = delete;
  ~Ids() { quern_ids_free(ids_); }

  QuernIds* out() { return &ids_; }
  std::span<const uint32_t> ids() const { return {ids_.ids, ids_.size}; }
  std::span<const uint32_t> type_ids() const { return {ids_.type_ids, ids_.type_ids == nullptr ? 0 : ids_.size}; }

 private:
  QuernIds ids_ = {};
};

// kInvalidFile, kInvalidArgument or kInternal with the library's message; ok for QUERN_FFI_OK.
Status to_status(QuernFfiStatus status, const Buffer& error);

}  // namespace quern::rust
