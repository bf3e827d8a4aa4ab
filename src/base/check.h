// CHECK is always on, DCHECK in debug builds only. Both are for what must hold by our own reasoning; what a user or a
// file can cause is an Error, never a check.
#pragma once

namespace quern {

// Prints the expression and its place on stderr and aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace quern

#define QUERN_CHECK(condition)                               \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::quern::check_failed(#condition, __FILE__, __LINE__); \
    }                                                        \
  } while (false)

#ifdef NDEBUG
#define QUERN_DCHECK(condition) \
  do {                          \
  } while (false && (condition))
#else
#define QUERN_DCHECK(condition) QUERN_CHECK(condition)
#endif
