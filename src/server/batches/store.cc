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

Result<std::optional<Json>> first_body(const std::vector<Database::Row>& rows) {
  if (rows.empty()) return std::nullopt;
  QUERN_ASSIGN(Json body, parse_json(text_of(rows[0][0]), "stored batch"));
  return body;
}

}  // namespace

const char* const BatchStore::kSchema =
    "CREATE TABLE IF NOT EXISTS files (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, "
    "filename TEXT NOT NULL, purpose TEXT NOT NULL, created_at INTEGER NOT NULL, content TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, "
    "status TEXT NOT NULL, body TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS batch_lines (batch_id TEXT NOT NULL REFERENCES batches (id) ON DELETE CASCADE, "
    "number INTEGER NOT NULL, text TEXT NOT NULL, result TEXT, failed INTEGER, PRIMARY KEY (batch_id, number)) "
    "WITHOUT ROWID;";

Result<File> BatchStore::add_file(const std::string& filename, const std::string& purpose, std::string content) {
  File file{.id = random_id("file-"),
            .filename = filename,
            .purpose = purpose,
            .bytes = static_cast<int64_t>(content.size()),
            .created_at = unix_seconds()};
  QUERN_TRY(database_.run("INSERT INTO files (id, filename, purpose, created_at, content) VALUES (?1, ?2, ?3, ?4, ?5)",
                          {file.id, file.filename, file.purpose, file.created_at, std::move(content)}));
  return file;
}

Result<std::optional<File>> BatchStore::file(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run(fmt::format("SELECT {} FROM files WHERE id = ?1", kFileColumns), {id}));
  if (rows.empty()) return std::nullopt;
  return file_of(rows[0]);
}

Result<std::string> BatchStore::content(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT content FROM files WHERE id = ?1", {id}));
  if (rows.empty()) return not_found(fmt::format("No such File object: {}", id));
  return text_of(rows[0][0]);
}

Result<std::vector<File>> BatchStore::files(const std::string& purpose, const std::string& after, int64_t limit) {
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

Result<bool> BatchStore::remove_file(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("DELETE FROM files WHERE id = ?1 RETURNING id", {id}));
  return !rows.empty();
}

Result<int64_t> BatchStore::bytes_stored() {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT COALESCE(SUM(LENGTH(CAST(content AS BLOB))), 0) FROM files"));
  return integer_of(rows[0][0]);
}

Status BatchStore::add_batch(const Json& batch, const std::vector<std::string>& lines) {
  const std::string id = batch["id"].get<std::string>();
  QUERN_TRY(database_.run("BEGIN IMMEDIATE"));
  auto added = database_.run("INSERT INTO batches (id, status, body) VALUES (?1, ?2, ?3)",
                             {id, batch["status"].get<std::string>(), dump_json(batch)});
  for (size_t i = 0; added && i < lines.size(); ++i) {
    added = database_.run("INSERT INTO batch_lines (batch_id, number, text) VALUES (?1, ?2, ?3)",
                          {id, static_cast<int64_t>(i), lines[i]});
  }
  const auto ended = database_.run(added ? "COMMIT" : "ROLLBACK");
  if (!added) return std::unexpected(added.error());
  if (!ended) return std::unexpected(ended.error());
  return {};
}

Status BatchStore::update_batch(const Json& batch) {
  QUERN_TRY(database_.run("UPDATE batches SET status = ?2, body = ?3 WHERE id = ?1",
                          {batch["id"].get<std::string>(), batch["status"].get<std::string>(), dump_json(batch)}));
  return {};
}

Status BatchStore::update_unless_cancelling(const Json& batch) {
  QUERN_TRY(database_.run("UPDATE batches SET status = ?2, body = ?3 WHERE id = ?1 AND status <> 'cancelling'",
                          {batch["id"].get<std::string>(), batch["status"].get<std::string>(), dump_json(batch)}));
  return {};
}

Result<std::optional<Json>> BatchStore::batch(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT body FROM batches WHERE id = ?1", {id}));
  return first_body(rows);
}

Result<std::vector<Json>> BatchStore::batches(const std::string& after, int64_t limit) {
  QUERN_ASSIGN(
      const auto rows,
      database_.run("SELECT body FROM batches WHERE ?1 = '' OR number < (SELECT number FROM batches WHERE id = "
                    "?1) ORDER BY number DESC LIMIT ?2",
                    {after, limit}));
  std::vector<Json> list;
  for (const auto& row : rows) {
    QUERN_ASSIGN(Json body, parse_json(text_of(row[0]), "stored batch"));
    list.push_back(std::move(body));
  }
  return list;
}

Result<std::optional<Json>> BatchStore::next_unfinished() {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT body FROM batches WHERE status IN ('validating', 'in_progress', "
                                              "'cancelling') ORDER BY number LIMIT 1"));
  return first_body(rows);
}

Result<std::vector<OpenLine>> BatchStore::open_lines(const std::string& batch_id, int64_t limit) {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT number, text FROM batch_lines WHERE batch_id = ?1 AND result IS "
                                              "NULL ORDER BY number LIMIT ?2",
                                              {batch_id, limit}));
  std::vector<OpenLine> lines;
  for (const auto& row : rows) lines.push_back({.number = integer_of(row[0]), .text = text_of(row[1])});
  return lines;
}

Status BatchStore::set_result(const std::string& batch_id, int64_t number, const std::string& result, bool failed) {
  QUERN_TRY(database_.run("UPDATE batch_lines SET result = ?3, failed = ?4 WHERE batch_id = ?1 AND number = ?2",
                          {batch_id, number, result, int64_t{failed}}));
  return {};
}

Result<BatchStore::Counts> BatchStore::counts(const std::string& batch_id) {
  QUERN_ASSIGN(const auto rows,
               database_.run("SELECT COUNT(*), COALESCE(SUM(failed = 0), 0), COALESCE(SUM(failed = 1), "
                             "0) FROM batch_lines WHERE batch_id = ?1",
                             {batch_id}));
  return Counts{.total = integer_of(rows[0][0]), .completed = integer_of(rows[0][1]), .failed = integer_of(rows[0][2])};
}

Result<std::string> BatchStore::results(const std::string& batch_id, bool failed) {
  QUERN_ASSIGN(const auto rows,
               database_.run("SELECT result FROM batch_lines WHERE batch_id = ?1 AND failed = ?2 ORDER "
                             "BY number",
                             {batch_id, int64_t{failed}}));
  std::string text;
  for (const auto& row : rows) text += text_of(row[0]) + "\n";
  return text;
}

}  // namespace quern::batches
