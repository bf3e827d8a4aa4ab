// OpenAI's Responses requests: wire fields to validated values.
#pragma once

#include "base/json.h"
#include "quern/engine.h"
#include "server/api_error.h"

namespace quern::responses {

struct ResponseRequest {
  std::string model;
  Request request;  // all but prompt_ids
  Json input;       // items, each with a type and an id: what /input_items lists
  std::string instructions;
  std::string previous_id;
  bool store = true;
  bool stream = false;
  bool background = false;
  Json metadata = Json::object();
  Json echo;  // fields that the response object repeats
};

ApiResult<ResponseRequest> parse_response_request(const Json& body, const SamplingOptions& defaults);

// Items of a conversation (inputs and outputs) as messages for templates.
ApiResult<Json> messages_of(const Json& items, const std::string& instructions);

}  // namespace quern::responses
