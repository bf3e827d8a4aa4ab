// OpenAI's Responses requests: wire fields to validated values.
#pragma once

#include "base/json.h"
#include "quern/engine.h"
#include "quern/grammar.h"
#include "server/api_error.h"
#include "server/tool_list.h"

namespace quern::responses {

struct ResponseRequest {
  std::string model;
  Request request;  // all but prompt_ids
  Json input;       // items, each with a type and an id: what /input_items lists
  std::string instructions;
  std::string previous_id;
  ToolList tools;
  std::optional<GrammarSpec> grammar;  // text.format
  Json template_kwargs = Json::object();
  bool store = true;
  bool stream = false;
  bool background = false;
  Json metadata = Json::object();
  Json echo;  // fields that the response object repeats
};

ApiResult<ResponseRequest> parse_response_request(const Json& body, const SamplingOptions& defaults);

}  // namespace quern::responses
