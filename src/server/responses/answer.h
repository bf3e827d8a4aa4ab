// The response object through its life, and the events of a stream.
#pragma once

#include <string>

#include "base/json.h"
#include "quern/engine.h"
#include "server/api_error.h"
#include "server/responses/request.h"

namespace quern::responses {

class ResponseObject {
 public:
  ResponseObject(const ResponseRequest& request, const std::string& model);

  const std::string& id() const { return id_; }
  const Json& json() const { return body_; }
  void set_status(const char* status) { body_["status"] = status; }
  // The answer's message is complete.
  void finish(const std::string& text, const FinishEvent& finish);
  void fail(const ApiError& error);

  // Server-sent events in OpenAI's order, ready to write.
  std::string begin_events();
  std::string delta_event(const std::string& text);
  std::string end_events(const std::string& text, const FinishEvent& finish);
  std::string fail_event(const ApiError& error);

 private:
  Json message(const std::string& text, const char* status) const;
  std::string event(const char* type, Json fields);

  std::string id_, message_id_;
  Json body_;
  int64_t sequence_number_ = 0;
};

}  // namespace quern::responses
