#include "server/batches/store.h"

#include "base/status.h"
#include "server/route.h"

namespace quern::batches {
namespace {

constexpr const char* kFileColumns = "id, filename, purpose, LENGTH(CAST(content AS BLOB)), created_at";

File file_of(const Database::Row& row) {
  return {.id = text_of(row[0]),
          .filename = text_of(row[1]),
          .purpose = text_of(row[2]),
          .bytes = integer_of(row[3]),
          .created_at = integer_of(row[4])};
}

}  // namespace

// The last two are of servers from before batches were jobs.
const char* const FileStore::kSchema =
    "CREATE TABLE IF NOT EXISTS files (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, "
    "filename TEXT NOT NULL, purpose TEXT NOT NULL, created_at INTEGER NOT NULL, content TEXT NOT NULL);"
    "DROP TABLE IF EXISTS batch_lines; DROP TABLE IF EXISTS batches;";

Result<File> FileStore::add_file(const std::string& filename, const std::string& purpose, std::string content) {
  File file{.id = random_id("file-"),
            .filename = filename,
            .purpose = purpose,
            .bytes = static_cast<int64_t>(content.size()),
            .created_at = unix_seconds()};
  QUERN_TRY(database_.run("INSERT INTO files (id, filename, purpose, created_at, content) VALUES (?1, ?2, ?3, ?4, ?5)",
                          {file.id, file.filename, file.purpose, file.created_at, std::move(content)}));
  return file;
}

Result<std::optional<File>> FileStore::file(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run(fmt::format("SELECT {} FROM files WHERE id = ?1", kFileColumns), {id}));
  if (rows.empty()) return std::nullopt;
  return file_of(rows[0]);
}

Result<std::string> FileStore::content(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT content FROM files WHERE id = ?1", {id}));
  if (rows.empty()) return not_found(fmt::format("No such File object: {}", id));
  return text_of(rows[0][0]);
}

Result<std::vector<File>> FileStore::files(const std::string& purpose, const std::string& after, int64_t limit) {
  QUERN_ASSIGN(
      const auto rows,
      database_.run(fmt::format("SELECT {} FROM files WHERE (?1 = '' OR purpose = ?1) AND (?2 = '' OR number < "
                                "(SELECT number FROM files WHERE id = ?2)) ORDER BY number DESC LIMIT ?3",
                                kFileColumns),
                    {purpose, after, limit}));
  std::vector<File> files;
  for (const auto& row : rows) files.push_back(file_of(row));
  return files;
}

Result<bool> FileStore::remove_file(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("DELETE FROM files WHERE id = ?1 RETURNING id", {id}));
  return !rows.empty();
}

Result<int64_t> FileStore::bytes_stored() {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT COALESCE(SUM(LENGTH(CAST(content AS BLOB))), 0) FROM files"));
  return integer_of(rows[0][0]);
}

Status FileStore::keep_file(const std::string& id, const std::string& filename, std::string content) {
  QUERN_TRY(
      database_.run("INSERT OR IGNORE INTO files (id, filename, purpose, created_at, content) "
                    "VALUES (?1, ?2, 'batch_output', ?3, ?4)",
                    {id, filename, unix_seconds(), std::move(content)}));
  return {};
}

}  // namespace quern::batches
