#include "server/responses/store.h"

#include "base/status.h"

namespace quern::responses {
namespace {

constexpr int64_t kResponsesMax = 10'000;

Result<Json> column(const Database::Value& value) {
  return parse_json(text_of(value), "stored response");
}

}  // namespace

const char* const ResponseStore::kSchema =
    "CREATE TABLE IF NOT EXISTS responses (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, "
    "body TEXT NOT NULL, input TEXT NOT NULL, history TEXT NOT NULL);";

Status ResponseStore::put(const StoredResponse& response) {
  QUERN_TRY(
      database_.run("INSERT INTO responses (id, body, input, history) VALUES (?1, ?2, ?3, ?4) "
                    "ON CONFLICT (id) DO UPDATE SET body = ?2, input = ?3, history = ?4",
                    {response.body["id"].get<std::string>(), dump_json(response.body), dump_json(response.input),
                     dump_json(response.history)}));
  QUERN_TRY(
      database_.run("DELETE FROM responses WHERE number <= (SELECT MAX(number) FROM responses) - ?1", {kResponsesMax}));
  return {};
}

Result<std::optional<StoredResponse>> ResponseStore::get(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("SELECT body, input, history FROM responses WHERE id = ?1", {id}));
  if (rows.empty()) return std::nullopt;
  StoredResponse response;
  QUERN_ASSIGN(response.body, column(rows[0][0]));
  QUERN_ASSIGN(response.input, column(rows[0][1]));
  QUERN_ASSIGN(response.history, column(rows[0][2]));
  return response;
}

Result<bool> ResponseStore::remove(const std::string& id) {
  QUERN_ASSIGN(const auto rows, database_.run("DELETE FROM responses WHERE id = ?1 RETURNING id", {id}));
  return !rows.empty();
}

void ResponseStore::set_running(const std::string& id, std::shared_ptr<DetachedReply> reply) {
  const std::lock_guard lock(mutex_);
  running_[id] = std::move(reply);
}

void ResponseStore::clear_running(const std::string& id) {
  const std::lock_guard lock(mutex_);
  running_.erase(id);
}

bool ResponseStore::cancel_running(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto place = running_.find(id);
  if (place == running_.end()) return false;
  place->second->cancel();
  return true;
}

}  // namespace quern::responses
