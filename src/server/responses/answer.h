// The response object through its life, and the events of a stream. An answer's parts are output items: reasoning,
// message, function_call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "server/answer_reader.h"
#include "server/api_error.h"
#include "server/responses/request.h"

namespace quern::responses {

// The only answer of a response, as it grows.
class Answer {
 public:
  explicit Answer(AnswerReader reader) : reader_(std::move(reader)) {}

  std::vector<PartDelta> add(const Event& event);

  // Once it has ended there is at least one: an answer without any is an empty text.
  const std::vector<AnswerPart>& parts() const;
  const std::optional<FinishEvent>& end() const { return end_; }
  int64_t reasoning_tokens() const { return reasoning_tokens_; }  // the marks around it included

 private:
  AnswerReader reader_;
  std::optional<FinishEvent> end_;
  int64_t tokens_ = 0, reasoning_tokens_ = 0;
};

// The end of a stream whose response object is not known here. SDKs read `error` and fail.
std::string error_event(const ApiError& error);

class ResponseObject {
 public:
  ResponseObject(const ResponseRequest& request, const std::string& model);

  const std::string& id() const { return id_; }
  const Json& json() const { return body_; }
  void set_status(const char* status) { body_["status"] = status; }
  void finish(const Answer& answer);  // which has ended
  void fail(const ApiError& error);

  // Server-sent events in OpenAI's order, ready to write.
  std::string begin_events();
  std::string delta_events(const Answer& answer, const std::vector<PartDelta>& deltas);
  std::string end_events(const Answer& answer);  // finish() included
  std::string fail_event(const ApiError& error);

 private:
  Json item(size_t index, const AnswerPart& part, const char* status);
  std::string begin_item(size_t index, const AnswerPart& part);
  std::string end_item(size_t index, const AnswerPart& part, const char* status);
  std::string item_event(const char* type, size_t index, Json fields, bool has_content);
  std::string event(const char* type, Json fields);

  std::string id_;
  std::vector<std::string> item_ids_;
  Json body_;
  int64_t sequence_number_ = 0;
};

}  // namespace quern::responses
