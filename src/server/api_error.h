// Errors as a client sees them. One value, rendered in each dialect's own shape.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;          // the request field; empty: null
  std::string code;           // machine-readable; empty: null
  int32_t retry_after_s = 1;  // told with 429 and 503
};

template <class T>
using ApiResult = std::expected<T, ApiError>;

inline std::unexpected<ApiError> bad_field(std::string param, std::string message) {
  return std::unexpected(ApiError{.message = std::move(message), .param = std::move(param)});
}

// An error of a room below: its code decides the status.
ApiError to_api_error(const Error& error);
// An error about a request, whose message begins with the engine's name of the field ("prompt_ids: …"): `param` and the
// message name the client's own. `prompt_field` is where this dialect's prompt stands.
ApiError request_error(const Error& error, std::string_view prompt_field);
// The same of a text that could not be encoded; one that is too long has the code context_length_exceeded.
ApiError prompt_error(const Error& error, std::string_view prompt_field);

// {"error":{"message","type","param","code"},"detail"}: OpenAI's shape, and `detail`, which Xinference's client reads.
std::string openai_error_body(const ApiError& error);
// The same as the last events of a stream that had begun.
std::string openai_error_event(const ApiError& error);

}  // namespace quern
