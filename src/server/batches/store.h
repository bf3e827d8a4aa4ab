// Files in SQLite: they survive a restart. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/database.h"
#include "quern/status.h"

namespace quern::batches {

struct File {
  std::string id, filename, purpose;
  int64_t bytes = 0, created_at = 0;
};

class FileStore {
 public:
  // `database` has the tables of kSchema and must outlive the store.
  explicit FileStore(Database& database) : database_(database) {}
  static const char* const kSchema;

  Result<File> add_file(const std::string& filename, const std::string& purpose, std::string content);
  Result<std::optional<File>> file(const std::string& id);
  Result<std::string> content(const std::string& id);
  Result<std::vector<File>> files(const std::string& purpose, const std::string& after, int64_t limit);
  Result<bool> remove_file(const std::string& id);
  Result<int64_t> bytes_stored();

  // Under an id of the caller's; one that is there stays as it is.
  Status keep_file(const std::string& id, const std::string& filename, std::string content);

 private:
  Database& database_;
};

}  // namespace quern::batches
