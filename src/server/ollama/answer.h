// Ollama's answers: JSON objects, one a line in streams.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "platform/fleet/fleet.h"
#include "quern/engine.h"
#include "server/answer_reader.h"
#include "server/api_error.h"
#include "server/model_table.h"

namespace quern::ollama {

using Clock = std::chrono::steady_clock;

enum class AnswerKind : uint8_t { kChat, kGenerate };

std::string error_body(const ApiError& error);  // {"error":"…"}
std::string error_line(const ApiError& error);  // the same, as the last line of a stream
std::string rfc3339_now();
std::string rfc3339(int64_t unix_seconds);

// What one object tells of an answer.
struct Said {
  std::string text, thinking;
  Json tool_calls = Json::array();  // whole ones: their arguments are objects; of kChat
};
Said all_said(const AnswerReader& answer);
// What pieces of an answer come to, an object each. A call is told once it is whole: when another part begins, or with
// `is_end`. One that was cut before is not told.
std::vector<Said> new_said(const AnswerReader& answer, const std::vector<PartDelta>& deltas, bool is_end);

// A part of an answer that goes on.
Json part(AnswerKind kind, const std::string& model, const Said& said);
// The last object, with the counts and durations (nanoseconds); `said` is the whole answer when it was not streamed.
Json end(AnswerKind kind, const std::string& model, const Said& said, const FinishEvent& finish,
         Clock::time_point begin);
// To a request without a prompt.
Json loaded(AnswerKind kind, const std::string& model);

bool can_think(const ServedModel& model);

// A model, or an adapter of it when a name is given.
Json model_entry(const ServedModel& model, const std::string& adapter);    // of /api/tags
Json running_entry(const ServedModel& model, const std::string& adapter);  // of /api/ps
// The same of a model of the fleet; nullopt: none of its replicas is loaded.
Json fleet_entry(const ModelView& model);
std::optional<Json> running_fleet_entry(const ModelView& model);
Json fleet_details(const ModelView& model);                                // of /api/show
Json model_details(const ServedModel& model, const std::string& adapter);  // of /api/show

}  // namespace quern::ollama
