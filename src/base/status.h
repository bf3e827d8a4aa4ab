// Helpers around quern/status.h for the rooms inside: early return and formatted errors.
#pragma once

#include <fmt/format.h>

#include "quern/status.h"

namespace quern {

inline std::unexpected<Error> invalid_argument(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}
inline std::unexpected<Error> invalid_file(std::string message) {
  return make_error(ErrorCode::kInvalidFile, std::move(message));
}
inline std::unexpected<Error> not_found(std::string message) {
  return make_error(ErrorCode::kNotFound, std::move(message));
}
inline std::unexpected<Error> unsupported(std::string message) {
  return make_error(ErrorCode::kUnsupported, std::move(message));
}
inline std::unexpected<Error> io_error(std::string message) {
  return make_error(ErrorCode::kIo, std::move(message));
}

}  // namespace quern

// Returns from the enclosing function with the error of `expr`, a Status or Result whose value is not needed.
#define QUERN_TRY(expr)                                            \
  do {                                                             \
    if (auto quern_try_result = (expr); !quern_try_result) {       \
      return std::unexpected(std::move(quern_try_result).error()); \
    }                                                              \
  } while (false)

// `QUERN_ASSIGN(auto file, open(path));` declares `file` from the value of a Result, or returns its error.
#define QUERN_ASSIGN(declaration, expr) QUERN_ASSIGN_(declaration, expr, QUERN_CONCAT_(quern_result_, __LINE__))
#define QUERN_ASSIGN_(declaration, expr, temporary)                     \
  auto temporary = (expr);                                              \
  if (!temporary) return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(*temporary)
#define QUERN_CONCAT_(a, b) QUERN_CONCAT2_(a, b)
#define QUERN_CONCAT2_(a, b) a##b
