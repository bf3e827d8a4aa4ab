// A file mapped read-only into memory. Owns the mapping; views into it must not outlive it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "quern/status.h"

namespace quern {

class MappedFile {
 public:
  // Errors: kNotFound, kIo, kInvalidFile for a folder or a device. An empty file maps to an empty span.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  // Gives the pages that hold `part` back to the page cache: after packing, a weight need not stay resident twice.
  // `part` may still be read; it is then faulted in again.
  static void drop_resident(std::span<const std::byte> part);

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quern
