#include "server/log.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "fmt/format.h"

namespace quern {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kNotice: return "notice";
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "info";
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, ms);
}

std::string text_line(std::string_view message, const Json& fields) {
  std::string line = fmt::format("quern: {}", message);
  for (const auto& item : fields.items()) line += fmt::format(" {}={}", item.key(), dump_json(item.value()));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

}  // namespace

void Log::write(LogLevel level, std::string_view message, const Json& fields) const {
  if (!writes(level)) return;
  std::string line;
  if (format_ == LogFormat::kText) {
    line = text_line(message, fields);
  } else {
    Json entry = {{"time", utc_now()}, {"level", level_name(level)}, {"message", message}};
    entry.update(fields);
    line = dump_json(entry);
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: stdio's lock keeps lines whole
}

}  // namespace quern
