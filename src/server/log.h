// The server's log on stderr: one line per event, for people or as JSON for machines. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"

namespace quern {

// kNotice is always written.
enum class LogLevel : uint8_t { kNotice, kError, kWarning, kInfo, kDebug };
enum class LogFormat : uint8_t { kText, kJson };

class Log {
 public:
  Log(LogFormat format, LogLevel level) : format_(format), level_(level) {}

  // text: "quern: MESSAGE key=value …"; JSON: {"time","level","message", the fields}.
  void write(LogLevel level, std::string_view message, const Json& fields = Json::object()) const;
  bool writes(LogLevel level) const { return level <= level_; }

 private:
  LogFormat format_;
  LogLevel level_;
};

}  // namespace quern
