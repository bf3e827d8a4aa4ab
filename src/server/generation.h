// What every dialect of text generation does the same way, once its wire format is read: a prompt for a model,
// submitted to its engine, its answer read. No wire format in here.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/engine.h"
#include "server/answer_reader.h"
#include "server/api_error.h"
#include "server/chat_plan.h"
#include "server/model_table.h"
#include "server/pump.h"

namespace quern {

// One prompt, ready for the engine.
struct Generation {
  const ServedModel* model = nullptr;
  Request request;                        // prompt_ids included
  std::string prompt_field = "messages";  // of the client's body, for what is wrong with the prompt
  ChatPlan plan;                          // how the answer is read; as it is, all of it is text
  AnswerReaderOptions reader;

  AnswerReader make_reader() const { return {plan.make_parser(), reader}; }
};

SamplingOptions default_sampling(const ServedModel& model);  // what the model's makers say

// Makes the prompt of a chat and plans how its answer is constrained and read. generation.model must be set.
ApiResult<void> plan_answer(Generation& generation, ChatPlanInput input);

// Compiles the plan's grammar and submits the prompt. Errors: those of submit().
http::asio::awaitable<ApiResult<EventStreams>> start(Generation& generation, http::Reply& reply);

// For whom the engine works: requests that come with one API key are one tenant, those without a key another, and
// tenants take turns; a batch's go behind all of them. A front door on our unix socket may say both (X-Quern-Tenant,
// X-Quern-Background).
void set_origin(Request& request, const http::Request& from);
// What the client called the model by: its id, or the adapter's name.
const std::string& shown_name(const ServedModel& model, const Request& request);
// Submits a request. `prompt_field` is where the client's prompt stands; one that does not fit has code
// context_length_exceeded.
ApiResult<std::unique_ptr<EventStream>> submit(const ServedModel& model, Request request,
                                               std::string_view prompt_field);

ApiError finish_error(const FinishEvent& finish);  // of a FinishReason::kError

}  // namespace quern
