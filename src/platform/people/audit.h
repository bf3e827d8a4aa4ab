// Who did what to what, when and from where, and how it ended. Kept 90 days, at most 100,000 lines. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/database.h"
#include "quern/status.h"

namespace quern::people {

inline constexpr int64_t kAuditDays = 90;
inline constexpr int64_t kAuditLinesMax = 100'000;

struct AuditLine {
  int64_t id = 0;
  int64_t time = 0;  // seconds since 1970
  std::string who;
  std::string action;   // "login", "POST /v1/admin/keys"
  std::string target;   // what it was done to; may be empty
  std::string address;  // of the client; empty on a unix socket and from the command line
  std::string outcome;  // "ok", or what it was refused with: "403"
};

struct AuditQuery {
  std::string who, action, target, address, outcome;  // each a part of the text, case aside; empty: any
  int64_t since = 0, until = 0;                       // seconds since 1970; 0: open
  int64_t before = 0;                                 // an id: lines older than it; 0: from the newest on
  int64_t limit = 50;                                 // 1 to 500
};

struct AuditPage {
  std::vector<AuditLine> lines;  // newest first
  int64_t total = 0;             // that fit the query, `before` aside
  int64_t next_before = 0;       // of the next page; 0: this was the last
};

class AuditLog {
 public:
  static const char* const kSchema;
  explicit AuditLog(Database& database) : database_(database) {}

  // Texts are cut at 512 bytes. Errors: kIo; what was done stays done.
  Status add(const AuditLine& line);
  Result<AuditPage> search(const AuditQuery& query);
  Status remove_old(int64_t now);

 private:
  Database& database_;
};

}  // namespace quern::people
