#include "platform/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <ranges>
#include <sstream>

#include "base/json.h"
#include "base/status.h"
#include "platform/home.h"
#include "platform/model_name.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
constexpr const char* kManifest = ".quern.json";

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t folder_bytes(const fs::path& folder) {
  int64_t total = 0;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error); entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (error) break;
    if (entry->is_regular_file(error)) total += static_cast<int64_t>(entry->file_size(error));
  }
  return total;
}

}  // namespace

fs::path store_folder() {
  return quern_home() / "models";
}
fs::path store_folder(const std::string& key) {
  return store_folder() / key;
}

Status make_store_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(store_folder(), error);
  // The store itself may lie behind a link, on a larger disk say.
  const fs::path root = fs::canonical(store_folder(), error);
  if (error) return io_error(fmt::format("{}: {}", store_folder().string(), error.message()));
  // Asked before anything is made, and what does not exist yet is no link.
  const fs::path resolved = fs::weakly_canonical(folder, error);
  const auto [in_root, rest] = std::ranges::mismatch(root, resolved);
  if (error || in_root != root.end()) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("{}: a link leads out of the store", folder.filename().string()));
  }
  fs::create_directories(folder, error);
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  return {};
}

Result<StoredModel> read_stored(const std::string& key) {
  const fs::path folder = store_folder(key);
  std::ifstream file(folder / kManifest);
  if (!file) return not_found(fmt::format("{}: not pulled", key));
  std::stringstream text;
  text << file.rdbuf();
  QUERN_ASSIGN(const Json json, parse_json(text.str(), (folder / kManifest).string()));
  StoredModel model{.key = key};
  try {
    model.name = json.at("name");
    model.source = json.at("source");
    model.bytes = json.at("bytes");
    model.pulled_at = json.at("pulled_at");
    const std::string path = json.at("path");
    if (!path.empty() && !is_safe_relative_path(path)) return invalid_file(fmt::format("{}: unsafe path", key));
    model.path = fs::absolute(path.empty() ? folder : folder / path);
  } catch (const Json::exception& error) {
    return invalid_file(fmt::format("{}: {}", (folder / kManifest).string(), error.what()));
  }
  if (std::error_code ignored; !fs::exists(model.path, ignored)) return not_found(fmt::format("{}: not pulled", key));
  return model;
}

std::vector<StoredModel> list_stored() {
  std::vector<StoredModel> models;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(store_folder(), error)) {
    if (auto model = read_stored(entry.path().filename().string())) models.push_back(std::move(*model));
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

Result<StoredModel> finish_stored(const std::string& key, const std::string& name, const std::string& source,
                                  const std::string& path) {
  const fs::path folder = store_folder(key);
  const Json manifest = {
      {"name", name}, {"source", source}, {"path", path}, {"bytes", folder_bytes(folder)}, {"pulled_at", now_text()}};
  const fs::path part = folder / (std::string(kManifest) + ".part");
  {
    std::ofstream file(part);
    file << dump_json(manifest, 1) << '\n';
    if (!file.flush()) return io_error(fmt::format("{}: cannot write: is the disk full?", part.string()));
  }
  std::error_code error;
  fs::rename(part, folder / kManifest, error);
  if (error) return io_error(fmt::format("{}: {}", part.string(), error.message()));
  return read_stored(key);
}

Status remove_stored(const std::string& key) {
  QUERN_ASSIGN(const StoreLock lock, StoreLock::acquire(key, nullptr));
  std::error_code error;
  // The manifest goes first: a removal that is cut short leaves an incomplete model, not a broken one.
  fs::remove(store_folder(key) / kManifest, error);
  fs::remove_all(store_folder(key), error);
  if (error) return io_error(fmt::format("{}: {}", store_folder(key).string(), error.message()));
  return {};
}

void remove_empty_store_folder(const std::string& key) {
  std::vector<fs::path> folders = {store_folder(key)};
  std::error_code ignored;
  for (auto entry = fs::recursive_directory_iterator(folders.front(), ignored);
       !ignored && entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    if (entry->is_symlink(ignored)) continue;
    if (entry->is_directory(ignored)) folders.push_back(entry->path());
    if (entry->is_regular_file(ignored) && entry->file_size(ignored) == 0) ::unlink(entry->path().c_str());
  }
  // The deepest first; one with something in it stays.
  for (const fs::path& folder : std::views::reverse(folders)) ::rmdir(folder.c_str());
}

Result<StoreLock> StoreLock::acquire(const std::string& key, void (*waiting)()) {
  std::error_code error;
  fs::create_directories(store_folder(), error);
  if (error) return io_error(fmt::format("{}: {}", store_folder().string(), error.message()));
  const fs::path path = store_folder() / (key + ".lock");
  for (bool told = false;;) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return io_error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (waiting != nullptr && !std::exchange(told, true)) waiting();
      while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    // Whoever held it took the file away: a lock on that one protects nothing, others see a new file.
    struct stat ours = {}, named = {};
    if (::fstat(fd, &ours) == 0 && ::lstat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev) {
      return StoreLock(path, fd);
    }
    ::close(fd);
  }
}

StoreLock::~StoreLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());  // before it is released, or it might be another's
  ::close(fd_);
}

}  // namespace quern
