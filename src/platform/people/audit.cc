#include "platform/people/audit.h"

#include <algorithm>

#include "base/status.h"

namespace quern::people {
namespace {

constexpr size_t kTextMax = 512;
constexpr int64_t kPageMax = 500;

std::string cut(const std::string& text) {
  return text.substr(0, kTextMax);
}

// What a LIKE pattern means by itself is escaped by \.
std::string containing(const std::string& part) {
  std::string pattern = "%";
  for (const char c : cut(part)) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "%";
}

struct Where {
  std::string sql = " WHERE 1";
  std::vector<Database::Value> values;

  void add(const std::string& condition, Database::Value value) {
    values.push_back(std::move(value));
    sql += fmt::format(" AND {} ?{}", condition, values.size());
  }
  void like(const char* column, const std::string& part) {
    if (part.empty()) return;
    add(fmt::format("{} LIKE", column), containing(part));
    sql += " ESCAPE '\\'";
  }
};

AuditLine line_of(const Database::Row& row) {
  return {.id = integer_of(row[0]),
          .time = integer_of(row[1]),
          .who = text_of(row[2]),
          .action = text_of(row[3]),
          .target = text_of(row[4]),
          .address = text_of(row[5]),
          .outcome = text_of(row[6])};
}

}  // namespace

const char* const AuditLog::kSchema =
    "CREATE TABLE IF NOT EXISTS audit(id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, who TEXT NOT NULL,"
    " action TEXT NOT NULL, target TEXT NOT NULL, address TEXT NOT NULL, outcome TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS audit_time ON audit(time);";

Status AuditLog::add(const AuditLine& line) {
  QUERN_TRY(database_.run(
      "INSERT INTO audit(time, who, action, target, address, outcome) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
      {line.time, cut(line.who), cut(line.action), cut(line.target), cut(line.address), cut(line.outcome)}));
  // Ids rise by one, so the newest N lines are those above newest - N.
  QUERN_TRY(database_.run("DELETE FROM audit WHERE id <= (SELECT MAX(id) FROM audit) - ?1", {kAuditLinesMax}));
  return {};
}

Status AuditLog::remove_old(int64_t now) {
  QUERN_TRY(database_.run("DELETE FROM audit WHERE time < ?1", {now - kAuditDays * 86400}));
  return {};
}

Result<AuditPage> AuditLog::search(const AuditQuery& query) {
  if (query.limit < 1 || query.limit > kPageMax) {
    return invalid_argument(fmt::format("limit: {} is outside 1 to {}", query.limit, kPageMax));
  }
  Where where;
  where.like("who", query.who);
  where.like("action", query.action);
  where.like("target", query.target);
  where.like("address", query.address);
  where.like("outcome", query.outcome);
  if (query.since > 0) where.add("time >=", query.since);
  if (query.until > 0) where.add("time <=", query.until);
  AuditPage page;
  QUERN_ASSIGN(const auto counted, database_.run("SELECT COUNT(*) FROM audit" + where.sql, where.values));
  page.total = integer_of(counted.at(0).at(0));
  if (query.before > 0) where.add("id <", query.before);
  const std::string columns = "SELECT id, time, who, action, target, address, outcome FROM audit";
  const std::string order = fmt::format(" ORDER BY id DESC LIMIT {}", query.limit + 1);
  QUERN_ASSIGN(const auto rows, database_.run(columns + where.sql + order, where.values));
  for (const auto& row : rows) {
    if (std::ssize(page.lines) == query.limit) {
      page.next_before = page.lines.back().id;
      break;
    }
    page.lines.push_back(line_of(row));
  }
  return page;
}

}  // namespace quern::people
