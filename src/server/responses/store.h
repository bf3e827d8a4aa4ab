// Responses that were kept, and those that run. In SQLite, newest ones up to a limit; thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/json.h"
#include "platform/database.h"
#include "server/background.h"

namespace quern::responses {

struct StoredResponse {
  Json body;     // the response object
  Json input;    // items of its own request
  Json history;  // items before and in it, its output included: what the next one goes on from
};

class ResponseStore {
 public:
  // `database` has the table of kSchema. Both must outlive the store.
  ResponseStore(Database& database, Background& background) : database_(database), background_(background) {}
  static const char* const kSchema;

  Status put(const StoredResponse& response);
  Result<std::optional<StoredResponse>> get(const std::string& id);
  Result<bool> remove(const std::string& id);  // false: there is none

  Background& background() { return background_; }
  void set_running(const std::string& id, std::shared_ptr<DetachedReply> reply);
  void clear_running(const std::string& id);
  bool cancel_running(const std::string& id);  // false: it does not run

 private:
  Database& database_;
  Background& background_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<DetachedReply>> running_;  // guarded by mutex_
};

}  // namespace quern::responses
