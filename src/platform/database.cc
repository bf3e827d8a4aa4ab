#include "platform/database.h"

#include <sqlite3.h>

#include "base/status.h"

namespace quern {
namespace {

using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

int bind(sqlite3_stmt* statement, int index, const Database::Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(statement, index, *number);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  return sqlite3_bind_null(statement, index);
}

Database::Value column(sqlite3_stmt* statement, int index) {
  switch (sqlite3_column_type(statement, index)) {
    case SQLITE_NULL: return {};
    case SQLITE_INTEGER: return static_cast<int64_t>(sqlite3_column_int64(statement, index));
    default: {
      const void* bytes = sqlite3_column_blob(statement, index);
      const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, index));
      return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
    }
  }
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& path, const std::string& schema) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::unique_ptr<Database> database(new Database());
  database->path_ = path;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database->handle_, flags, nullptr) != SQLITE_OK) {
    return io_error(fmt::format("{}: {}", path.string(), sqlite3_errmsg(database->handle_)));
  }
  sqlite3_busy_timeout(database->handle_, 10'000);
  const std::string script = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; " + schema;
  if (sqlite3_exec(database->handle_, script.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return io_error(fmt::format("{}: {}", path.string(), sqlite3_errmsg(database->handle_)));
  }
  return database;
}

Database::~Database() {
  sqlite3_close(handle_);
}

Result<std::vector<Database::Row>> Database::run(const std::string& sql, const std::vector<Value>& values) {
  const std::lock_guard lock(mutex_);
  const auto failure = [&] { return io_error(fmt::format("{}: {}", path_.string(), sqlite3_errmsg(handle_))); };
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), static_cast<int>(sql.size()), &raw, nullptr) != SQLITE_OK) {
    return failure();
  }
  const Statement statement(raw, sqlite3_finalize);
  for (size_t i = 0; i < values.size(); ++i) {
    if (bind(raw, static_cast<int>(i) + 1, values[i]) != SQLITE_OK) return failure();
  }
  std::vector<Row> rows;
  for (;;) {
    const int step = sqlite3_step(raw);
    if (step == SQLITE_DONE) return rows;
    if (step != SQLITE_ROW) return failure();
    Row row;
    for (int i = 0; i < sqlite3_column_count(raw); ++i) row.push_back(column(raw, i));
    rows.push_back(std::move(row));
  }
}

int64_t integer_of(const Database::Value& value) {
  const auto* number = std::get_if<int64_t>(&value);
  return number == nullptr ? 0 : *number;
}

std::string text_of(const Database::Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}

}  // namespace quern
