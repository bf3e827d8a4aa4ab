#include "formats/part_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/status.h"

namespace quern {
namespace {

std::filesystem::path with_part_suffix(std::filesystem::path path) {
  return path += ".part";
}

}  // namespace

std::filesystem::path PartFile::part_path() const {
  return with_part_suffix(path_);
}

std::unexpected<Error> PartFile::failed(std::string_view what) const {
  return io_error(fmt::format("{}: cannot {}: {}", part_path().string(), what, std::strerror(errno)));
}

Result<PartFile> PartFile::create(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(with_part_suffix(path).c_str(), "wbe");
  PartFile result(path, file);
  if (file == nullptr) return result.failed("create");
  return result;
}

PartFile::~PartFile() {
  if (!file_) return;
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(part_path(), ignored);
}

Status PartFile::write(std::span<const std::byte> bytes) {
  QUERN_CHECK(file_ != nullptr);
  if (bytes.empty()) return {};  // its data may be null, which fwrite must not get
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return failed("write");
  size_ += bytes.size();
  return {};
}

Status PartFile::write_zeros(uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros = {};
  while (count > 0) {
    const uint64_t chunk = std::min<uint64_t>(count, kZeros.size());
    QUERN_TRY(write(std::span(kZeros).first(chunk)));
    count -= chunk;
  }
  return {};
}

Status PartFile::commit() {
  QUERN_CHECK(file_ != nullptr);
  if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) return failed("write");
  std::error_code error;
  std::filesystem::rename(part_path(), path_, error);
  if (error)
    return io_error(fmt::format("{}: cannot rename to {}: {}", part_path().string(), path_.string(), error.message()));
  file_.reset();
  return {};
}

}  // namespace quern
