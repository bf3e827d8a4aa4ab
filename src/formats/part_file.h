// A file that appears whole or not at all: written as PATH.part, renamed when complete.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "quern/status.h"

namespace quern {

class PartFile {
 public:
  // Errors: kIo. An existing PATH.part is overwritten.
  static Result<PartFile> create(const std::filesystem::path& path);

  PartFile(PartFile&&) = default;
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile();  // removes PATH.part unless commit() succeeded

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Status write_zeros(uint64_t count);
  uint64_t size() const { return size_; }  // bytes written so far

  // Writes what is buffered to the disk and renames. Nothing may be written after it.
  Status commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  PartFile(std::filesystem::path path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  std::filesystem::path part_path() const;
  std::unexpected<Error> failed(std::string_view what) const;

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;  // null after a commit or a move
  uint64_t size_ = 0;
};

}  // namespace quern
