// Errors as values. Every call that can fail returns Result<T> (or Status, which carries no value); nothing throws
// across a room. The list of codes is closed: a new kind of failure is a new line here, not a new type elsewhere.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace quern {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is wrong: option, request field, token id. CLI exit 2, HTTP 400.
  kInvalidFile,        // bytes of a file are malformed or describe an impossible model. CLI exit 2.
  kNotFound,           // no such file, model, tensor, job. HTTP 404.
  kUnsupported,        // well formed, but this build or machine cannot do it. CLI exit 2, HTTP 400/501.
  kResourceExhausted,  // a limit known at start was reached: queue, KV blocks, memory. HTTP 429.
  kUnavailable,        // the other side is not there now; trying again may help. HTTP 503.
  kCancelled,          // the caller asked for it. No answer is owed.
  kDeadlineExceeded,   // a time limit passed.
  kPermissionDenied,   // key, scope or path not allowed. HTTP 401/403.
  kIo,                 // the operating system refused: disk, socket. CLI exit 1.
  kInternal,           // our own fault: an invariant did not hold. CLI exit 1, HTTP 500.
};

// Name of a code as logs and error bodies print it, e.g. "invalid_argument".
const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one line, names the file / field / number that is wrong
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> make_error(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace quern
