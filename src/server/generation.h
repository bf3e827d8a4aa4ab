// What every dialect of text generation does the same way, once its wire format is read: a prompt for a model,
// submitted to its engine. No wire format in here.
#pragma once

#include <string>
#include <vector>

#include "quern/engine.h"
#include "server/api_error.h"
#include "server/model_table.h"
#include "server/pump.h"

namespace quern {

// One prompt, ready for the engine.
struct Generation {
  const ServedModel* model = nullptr;
  Request request;  // prompt_ids included
};

SamplingOptions default_sampling(const ServedModel& model);  // what the model's makers say

// Messages as templates take them, to ids.
ApiResult<std::vector<int32_t>> encode_messages(const ServedModel& model, TemplateInput input);

// A prompt that does not fit has code context_length_exceeded.
ApiResult<EventStreams> submit(const Generation& generation);

// For whom the engine works: requests that come with one API key are one tenant, those without a key another, and
// tenants take turns; a batch's go behind all of them.
void set_origin(Request& request, const http::Request& from);
// What the client called the model by: its id, or the adapter's name.
const std::string& shown_name(const Generation& generation);

ApiError finish_error(const FinishEvent& finish);  // of a FinishReason::kError

}  // namespace quern
