// Errors as a client sees them. One value, rendered in each dialect's own shape.
#pragma once

#include <expected>
#include <string>

#include "quern/status.h"

namespace quern {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // the request field; empty: null
  std::string code;   // machine-readable; empty: null
};

template <class T>
using ApiResult = std::expected<T, ApiError>;

inline std::unexpected<ApiError> bad_field(std::string param, std::string message) {
  return std::unexpected(ApiError{.message = std::move(message), .param = std::move(param)});
}

// An error of a room below: its code decides the status.
ApiError to_api_error(const Error& error);

// {"error":{"message","type","param","code"},"detail"}: OpenAI's shape, and `detail`, which Xinference's client reads.
std::string openai_error_body(const ApiError& error);

}  // namespace quern
