// A thin door to SQLite: one file, one connection, one user at a time. Thread-safe: each call takes the lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "quern/status.h"

struct sqlite3;

namespace quern {

class Database {
 public:
  using Value = std::variant<std::monostate, int64_t, std::string>;  // NULL, INTEGER, TEXT or BLOB
  using Row = std::vector<Value>;

  // Creates the file and its folder when they are missing, and runs `schema` ("CREATE TABLE IF NOT EXISTS …"). Other
  // processes may have the file open too; a lock is waited for up to 10 s. Errors: kIo naming the file.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& path, const std::string& schema);
  ~Database();

  // One statement with ?1, ?2 …; all its rows. Errors: kIo with SQLite's words.
  Result<std::vector<Row>> run(const std::string& sql, const std::vector<Value>& values = {});

 private:
  Database() = default;
  std::filesystem::path path_;
  std::mutex mutex_;
  sqlite3* handle_ = nullptr;  // guarded by mutex_
};

int64_t integer_of(const Database::Value& value);   // 0 for another type
std::string text_of(const Database::Value& value);  // empty for another type

}  // namespace quern
