// Ollama's answers: JSON objects, one a line in streams.
#pragma once

#include <chrono>
#include <string>

#include "base/json.h"
#include "quern/engine.h"
#include "server/api_error.h"
#include "server/model_table.h"

namespace quern::ollama {

using Clock = std::chrono::steady_clock;

enum class AnswerKind : uint8_t { kChat, kGenerate };

std::string error_body(const ApiError& error);  // {"error":"…"}
std::string rfc3339_now();
std::string rfc3339(int64_t unix_seconds);

// A part of an answer that goes on.
Json part(AnswerKind kind, const std::string& model, const std::string& text);
// The last object, with the counts and durations (nanoseconds); `text` is the whole answer when it was not streamed.
Json end(AnswerKind kind, const std::string& model, const std::string& text, const FinishEvent& finish,
         Clock::time_point begin);
// To a request without a prompt.
Json loaded(AnswerKind kind, const std::string& model);

Json model_entry(const ServedModel& model);    // of /api/tags
Json running_entry(const ServedModel& model);  // of /api/ps
Json model_details(const ServedModel& model);  // of /api/show

}  // namespace quern::ollama
