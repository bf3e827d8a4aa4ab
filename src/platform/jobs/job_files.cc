#include "platform/jobs/job_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

class JobFile {
 public:
  JobFile(const fs::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~JobFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  JobFile(const JobFile&) = delete;
  int fd() const { return fd_; }
  std::unexpected<Error> failure() const {
    return io_error(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
  }

 private:
  const fs::path path_;
  const int fd_;
};

}  // namespace

Result<std::string> read_at(const fs::path& path, int64_t offset, int64_t bytes) {
  const JobFile file(path, O_RDONLY);
  if (file.fd() < 0) return file.failure();
  std::string text(static_cast<size_t>(bytes), '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::pread(file.fd(), text.data() + done, text.size() - done, offset + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file.failure();
    if (count == 0) return io_error(fmt::format("{}: ends before byte {}", path.string(), offset + bytes));
    done += static_cast<size_t>(count);
  }
  return text;
}

Status write_at(const fs::path& path, int64_t offset, std::string_view text) {
  const JobFile file(path, O_WRONLY | O_CREAT);
  if (file.fd() < 0) return file.failure();
  for (size_t done = 0; done < text.size();) {
    const ssize_t count =
        ::pwrite(file.fd(), text.data() + done, text.size() - done, offset + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file.failure();
    done += static_cast<size_t>(count);
  }
  if (::ftruncate(file.fd(), offset + std::ssize(text)) != 0 || ::fdatasync(file.fd()) != 0) return file.failure();
  return {};
}

Status replace_file(const fs::path& path, std::string_view text) {
  const fs::path part = path.string() + ".part";
  std::error_code error;
  fs::remove(part, error);  // never written through a link that lies there
  QUERN_TRY(write_at(part, 0, text));
  fs::rename(part, path, error);
  if (error) return io_error(fmt::format("{}: {}", path.string(), error.message()));
  return {};
}

}  // namespace quern
