// Files and batches in SQLite: they survive a restart. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "platform/database.h"
#include "quern/status.h"

namespace quern::batches {

struct File {
  std::string id, filename, purpose;
  int64_t bytes = 0, created_at = 0;
};

// One line of a batch's input that has no result yet.
struct OpenLine {
  int64_t number = 0;
  std::string text;
};

class BatchStore {
 public:
  // `database` has the tables of kSchema and must outlive the store.
  explicit BatchStore(Database& database) : database_(database) {}
  static const char* const kSchema;

  Result<File> add_file(const std::string& filename, const std::string& purpose, std::string content);
  Result<std::optional<File>> file(const std::string& id);
  Result<std::string> content(const std::string& id);
  Result<std::vector<File>> files(const std::string& purpose, const std::string& after, int64_t limit);
  Result<bool> remove_file(const std::string& id);
  Result<int64_t> bytes_stored();

  // The batch object as OpenAI shows it; lines are those of its input file.
  Status add_batch(const Json& batch, const std::vector<std::string>& lines);
  Status update_batch(const Json& batch);
  Status update_unless_cancelling(const Json& batch);  // somebody may have asked for that meanwhile
  Result<std::optional<Json>> batch(const std::string& id);
  Result<std::vector<Json>> batches(const std::string& after, int64_t limit);
  Result<std::optional<Json>> next_unfinished();  // the oldest one that waits, runs or is being cancelled

  Result<std::vector<OpenLine>> open_lines(const std::string& batch_id, int64_t limit);
  Status set_result(const std::string& batch_id, int64_t number, const std::string& result, bool failed);
  struct Counts {
    int64_t total = 0, completed = 0, failed = 0;
  };
  Result<Counts> counts(const std::string& batch_id);
  Result<std::string> results(const std::string& batch_id, bool failed);  // lines in the order of the input

 private:
  Database& database_;
};

}  // namespace quern::batches
