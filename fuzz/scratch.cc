#include "scratch.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/check.h"

namespace quern::fuzz {
namespace {

class Folder {
 public:
  Folder() {
    std::error_code ignored;
    // Memory rather than a disk, where there is such a place.
    const std::filesystem::path memory = "/dev/shm";
    std::string name =
        ((std::filesystem::is_directory(memory, ignored) ? memory : std::filesystem::temp_directory_path()) /
         "quern-fuzz-XXXXXX")
            .string();
    QUERN_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::filesystem::path scratch_file(std::string_view name, std::string_view bytes) {
  static const Folder folder;
  std::filesystem::path path = folder.path() / name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace quern::fuzz
