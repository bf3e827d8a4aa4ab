// Pulled models on disk: $QUERN_HOME/models/KEY/…, complete when KEY/.quern.json is there (it is written last).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "quern/status.h"

namespace quern {

struct StoredModel {
  std::string key;             // folder name: "smollm2--135m-q4_1", "hf--org--repo--main"
  std::string name;            // what the user wrote: "smollm2:135m-q4_1", "hf:org/repo"
  std::string source;          // where it came from
  std::filesystem::path path;  // absolute: a model file, or the folder
  int64_t bytes = 0;
  std::string pulled_at;  // ISO 8601, UTC
};

std::filesystem::path store_folder();  // $QUERN_HOME/models
std::filesystem::path store_folder(const std::string& key);

// Makes a folder of the store. kPermissionDenied when a link inside the store leads out of it.
Status make_store_folder(const std::filesystem::path& folder);

Result<StoredModel> read_stored(const std::string& key);  // kNotFound when it is not complete
std::vector<StoredModel> list_stored();                   // by name; incomplete ones left out
// Marks the model complete: writes the manifest. `path` is relative to the folder, "" for the folder itself.
Result<StoredModel> finish_stored(const std::string& key, const std::string& name, const std::string& source,
                                  const std::string& path);
// Waits for a pull of the same model.
Status remove_stored(const std::string& key);
// Takes away what a pull that failed before its first byte has made; files that a later pull resumes from stay.
void remove_empty_store_folder(const std::string& key);

// A lock between processes on one key, held while the object lives. Waits for another holder. Its file is gone when
// nobody holds it.
class StoreLock {
 public:
  static Result<StoreLock> acquire(const std::string& key, void (*waiting)());
  StoreLock(StoreLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  StoreLock& operator=(StoreLock&&) = delete;
  ~StoreLock();

 private:
  StoreLock(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_;
};

}  // namespace quern
